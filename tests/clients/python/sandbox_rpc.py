"""A client of `controller serve`: JSON-RPC 2.0, one message a line, over the controller's stdin and stdout.

    with Client("controller/controller", ["--endpoint", "unix:///run/dockerproxy.sock"]) as c:
        c.call("create", name="cap-x", limits={"egress": "none"})
        print(c.call("exec", id="cap-x", command="id")["stdout"])

Requests may be started and awaited apart (start, wait); notifications are kept per request.
"""

import json
import subprocess
import threading


class RpcError(Exception):
    """An error answer; kind is what a client switches on."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data", {})
        self.kind = self.data.get("kind")


class Client:
    def __init__(self, program, options=(), env=None, stderr=None):
        self.process = subprocess.Popen(
            [*([program] if isinstance(program, str) else program), "serve", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=env)
        self.last_id = 0
        self.answers = {}
        self.notes = []
        self.closed = False
        self.ready = threading.Condition()
        self.lines = []
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)  # every line is a message: stdout carries nothing else
            with self.ready:
                self.lines.append(message)
                for m in message if isinstance(message, list) else [message]:
                    if "method" in m:
                        self.notes.append(m)
                    else:
                        self.answers[json.dumps(m.get("id"))] = m
                self.ready.notify_all()
        with self.ready:
            self.closed = True
            self.ready.notify_all()

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def start(self, method, **params):
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return self.last_id

    def notify(self, method, **params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request, timeout=120):
        """The whole answer to a request id."""
        key = json.dumps(request)
        with self.ready:
            if not self.ready.wait_for(lambda: key in self.answers or self.closed, timeout) or key not in self.answers:
                raise TimeoutError(f"no answer to request {request}")
            return self.answers.pop(key)

    def wait(self, request, timeout=120):
        message = self.answer(request, timeout)
        if "error" in message:
            raise RpcError(message["error"])
        return message["result"]

    def call(self, method, **params):
        return self.wait(self.start(method, **params))

    def wait_note(self, test, timeout=60):
        """Waits until a notification passes the test."""
        with self.ready:
            if not self.ready.wait_for(lambda: any(test(n) for n in self.notes), timeout):
                raise TimeoutError("the notification did not come")

    def output(self, request):
        """What exec/output told of a request, by stream."""
        import base64
        out = {"stdout": b"", "stderr": b""}
        for n in list(self.notes):
            p = n["params"]
            if n["method"] == "exec/output" and p["requestId"] == request:
                data = base64.b64decode(p["data"]) if p["encoding"] == "base64" else p["data"].encode()
                out[p["stream"]] += data
        return out

    def close(self, timeout=60):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        status = self.process.wait(timeout)
        return status
