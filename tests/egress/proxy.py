"""Starts egressd, speaks raw bytes to it, and reads its audit log."""

import json
import os
import signal
import socket
import struct
import subprocess
import time

LIMIT = 20.0


def find_program():
    """$EGRESSD, or egressd/egressd of $BUILD_DIR, of the current directory (make check), or of the tree of this file."""
    if "EGRESSD" in os.environ:
        return os.path.abspath(os.environ["EGRESSD"])
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    for directory in (os.environ.get("BUILD_DIR"), os.getcwd(), top):
        program = os.path.join(directory or "", "egressd", "egressd")
        if directory and os.access(program, os.X_OK):
            return os.path.abspath(program)
    return os.path.join(top, "egressd", "egressd")


PROGRAM = find_program()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(condition, what):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited in vain for {what}")


class Conn:
    """A raw connection, closed with its test."""

    def __init__(self, port, receive=None):
        """receive: bytes that the kernel keeps for us."""
        self.sock = socket.socket()
        self.sock.settimeout(LIMIT)
        if receive is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.sock.connect(("127.0.0.1", port))
        self.buffer = b""

    def send(self, data):
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        return self

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def head(self):
        """The next head: (status, reason phrase, [(name, value)])."""
        while b"\r\n\r\n" not in self.buffer:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError(self.buffer)
            self.buffer += data
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        version, status, phrase = lines[0].split(" ", 2)
        assert version == "HTTP/1.1", lines[0]
        return int(status), phrase, [tuple(line.split(": ", 1)) for line in lines[1:]]

    def take(self, n):
        parts, have = [self.buffer], len(self.buffer)
        while have < n:
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError(have)
            parts.append(data)
            have += len(data)
        data = b"".join(parts)
        data, self.buffer = data[:n], data[n:]
        return data

    def rest(self):
        """Everything up to the end."""
        while data := self.sock.recv(65536):
            self.buffer += data
        data, self.buffer = self.buffer, b""
        return data

    def answer(self, head_request=False):
        """A whole answer: (status, fields, body)."""
        status, phrase, fields = self.head()
        named = {k.lower(): v for k, v in fields}
        if head_request or status in (204, 304) or status < 200:
            body = b""
        elif named.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                while b"\r\n" not in self.buffer:
                    self.buffer += self.sock.recv(65536)
                line, self.buffer = self.buffer.split(b"\r\n", 1)
                n = int(line, 16)
                body += self.take(n)
                self.take(2)
                if n == 0:
                    break
        elif "content-length" in named:
            body = self.take(int(named["content-length"]))
        else:
            body = self.rest()
        named[":phrase"] = phrase
        return status, named, body

    def closed(self):
        """True when the other side ends now, and nothing more came."""
        try:
            return self.buffer == b"" and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Egressd:
    def __init__(self, directory, env=None, config=None, arguments=(), listen=True, wait=True,
                 wrapper=()):
        self.port = free_port()
        self.directory = directory
        self.log_path = os.path.join(directory, f"egressd-{self.port}.log")
        self.env = {"PATH": os.environ["PATH"], "LISTEN": f"127.0.0.1:{self.port}", **(env or {})}
        # Freed memory that the sanitizer keeps would look like memory in use.
        asan = self.env.get("ASAN_OPTIONS", os.environ.get("ASAN_OPTIONS", "detect_leaks=1"))
        self.env["ASAN_OPTIONS"] = asan + ":quarantine_size_mb=1"
        if not listen:
            self.env.pop("LISTEN")
        arguments = list(arguments)
        if config is not None:
            self.config = os.path.join(directory, f"egressd-{self.port}.json")
            self.write_config(config)
            arguments += ["--config", self.config]
        # The system gives a port again after a while: the lines of its last holder are not ours.
        if os.path.exists(self.log_path):
            os.unlink(self.log_path)
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen([*wrapper, PROGRAM, *arguments], env=self.env, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        self.conns = []
        self.barriers = 0
        if wait:
            last = "listening on" if self.env.get("LISTEN") else " relays to "
            wait_for(lambda: last in self.text() or self.process.poll() is not None, "egressd to start")
            if self.process.poll() is not None:
                raise RuntimeError(self.text())
            wait_for(self.accepts, "egressd to accept")

    def accepts(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return not self.env.get("LISTEN")

    def write_config(self, config):
        fresh = self.config + ".new"
        with open(fresh, "w", encoding="utf-8") as f:
            json.dump(config, f)
        os.rename(fresh, self.config)

    def text(self):
        with open(self.log_path, "r", encoding="utf-8", errors="replace") as f:
            return f.read()

    def lines(self, event=None):
        found = []
        for line in self.text().splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                if event is None or entry["event"] == event:
                    found.append(entry)
        return found

    def decisions(self):
        """All decisions so far; the barrier's own, which says that there are no more to come, is left out."""
        self.barriers += 1
        name = f"barrier-{self.barriers}.invalid"
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT) as s:
            s.sendall(f"CONNECT {name}:443 HTTP/1.1\r\n\r\n".encode())
            s.recv(65536)
        wait_for(lambda: f'"target":"{name}:443"' in self.text(), "the audit log")
        return [d for d in self.lines("decision") if not d["target"].startswith("barrier-")]

    def last(self, event, count=1):
        wait_for(lambda: len(self.lines(event)) >= count, f"{count} {event} lines")
        return self.lines(event)[-1]

    def connect(self, receive=None):
        conn = Conn(self.port, receive)
        self.conns.append(conn)
        return conn

    def tunnel(self, target, version="1.1"):
        conn = self.connect().send(f"CONNECT {target} HTTP/{version}\r\n\r\n")
        status, _, fields = conn.head()
        if status == 200:
            assert fields == [], fields
        return status, conn

    def ask(self, url, method="GET", fields=(), body=b""):
        conn = self.connect()
        conn.send("".join([f"{method} {url} HTTP/1.1\r\nHost: ignored.test\r\n", *[f"{f}\r\n" for f in fields], "\r\n"]))
        conn.send(body)
        return (*conn.answer(method == "HEAD"), conn)

    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return {k: v.strip() for k, _, v in (line.partition(":") for line in f)}

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        for conn in self.conns:
            conn.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("egressd did not stop\n" + self.text()) from None
        self.log.close()
        text = self.text()
        assert "Sanitizer" not in text and "runtime error" not in text, text
        return status


def run(*arguments, env=None, timeout=60):
    return subprocess.run([PROGRAM, *arguments], env={"PATH": os.environ["PATH"], **(env or {})},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
