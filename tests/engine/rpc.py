# A client of `controller serve` over its pipes for tests and benches. Not a test itself.
import json
import os
import subprocess
import threading

top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.environ.get("BUILD_DIR", top)
PATIENCE = 300


class Failure(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.kind = error.get("data", {}).get("kind")
        self.data = error.get("data", {})


class Pending:
    def __init__(self):
        self.event = threading.Event()
        self.answer = None

    def done(self):
        return self.event.is_set()

    def wait(self):
        if not self.event.wait(PATIENCE):
            raise TimeoutError("the controller does not answer")
        if "error" in self.answer:
            raise Failure(self.answer["error"])
        return self.answer["result"]


class Controller:
    """One `controller serve`; send() and call() may be used from several threads."""

    def __init__(self, *args):
        self.process = subprocess.Popen([os.path.join(build, "controller/controller"), "serve", "--stdio", *args],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1 << 20)
        self.lock = threading.Lock()
        self.pending = {}
        self.next = 0
        self.output = {}
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.call("initialize")

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("method") == "exec/output":
                p = message["params"]
                self.output.setdefault(p["requestId"], []).append(p)
            pending = self.pending.pop(message.get("id"), None)
            if pending:
                pending.answer = message
                pending.event.set()

    def notify(self, method, **params):
        with self.lock:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")
            self.process.stdin.flush()

    def send(self, method, **params):
        pending = Pending()
        with self.lock:
            self.next += 1
            pending.id = self.next
            self.pending[self.next] = pending
            text = json.dumps({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        return pending

    def call(self, method, **params):
        return self.send(method, **params).wait()

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()
