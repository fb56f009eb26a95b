"""A proxy in front of the engine's API that does to one request what networks and engines do.

    with Faulty(upstream_socket, own_socket) as f:
        f.arm("POST", r"/containers/create\\?name=cap-x$", "late", seconds=4)

Faults: refuse (500, nothing passed on), drop (closed, nothing passed on), lose (passed on, the answer is not),
answer (the given bytes, or what the given function returns, every time, nothing passed on),
late (passed on only after a while: the client has given up by then), slow (passed on at once, answered after a while).
"""

import json
import os
import re
import socket
import threading
import time


class Faulty:
    def __init__(self, upstream, path):
        self.upstream = upstream
        self.path = path
        self.rule = None
        self.hits = 0
        self.pending = []  # threads of late requests
        self.seen = []
        self.tunnels = []
        if os.path.exists(path):
            os.unlink(path)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()
        os.unlink(self.path)

    def arm(self, method, pattern, fault, seconds=4.0, answer=b"", named=None):
        """named: only a request whose body has that Name."""
        self.hits = 0
        self.answer = answer
        self.rule = (method, re.compile(pattern), fault, seconds, named)

    def cut(self):
        """Ends every upgraded stream, as an engine that dies does."""
        tunnels, self.tunnels = self.tunnels, []
        for s in tunnels:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def disarm(self):
        """Stops doing harm, and waits for what is still on its way."""
        self.rule = None
        for t in self.pending:
            t.join()
        self.pending = []

    def _accept(self):
        while True:
            try:
                conn, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    @staticmethod
    def _read_message(conn, data):
        """One request: head and body by its Content-Length; None at the end."""
        while b"\r\n\r\n" not in data:
            more = conn.recv(65536)
            if not more:
                return None, b""
            data += more
        head, rest = data.split(b"\r\n\r\n", 1)
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        need = int(length.group(1)) if length else 0
        while len(rest) < need:
            more = conn.recv(65536)
            if not more:
                return None, b""
            rest += more
        return head + b"\r\n\r\n" + rest[:need], rest[need:]

    def _matches(self, request):
        head, body = request.split(b"\r\n\r\n", 1)
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        name = json.loads(body).get("Name") if body.startswith(b"{") else None
        path = re.sub(r"^/v[0-9.]+", "", line[1])
        self.seen.append((line[0], path, name))
        if self.rule is None or (self.hits > 0 and self.rule[2] != "answer"):
            return None
        method, pattern, fault, seconds, named = self.rule
        if line[0] != method or not pattern.search(path) or named not in (None, name):
            return None
        self.hits += 1
        return fault, seconds

    def _pass(self, request):
        up = socket.socket(socket.AF_UNIX)
        up.connect(self.upstream)
        up.sendall(request)
        return up

    def _deliver_late(self, request, seconds):
        time.sleep(seconds)
        up = self._pass(request)
        up.settimeout(20)
        try:
            up.recv(65536)
        except OSError:
            pass
        up.close()

    def _serve(self, conn):
        data = b""
        try:
            while True:
                request, data = self._read_message(conn, data)
                if request is None:
                    return
                fault = self._matches(request)
                if fault is not None:
                    kind, seconds = fault
                    if kind == "refuse":
                        body = b"" if request.startswith(b"HEAD ") else b'{"message":"made to fail"}\n'
                        conn.sendall(b"HTTP/1.1 500 Internal Server Error\r\nApi-Version: 1.41\r\n"
                                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                        continue
                    if kind == "answer":
                        reply = self.answer() if callable(self.answer) else self.answer
                        conn.sendall(reply)
                        if b"Connection: close" in reply:
                            return
                        continue
                    if kind == "drop":
                        return
                    if kind == "late":
                        t = threading.Thread(target=self._deliver_late, args=(request, seconds), daemon=True)
                        self.pending.append(t)
                        t.start()
                        time.sleep(seconds + 30)
                        return
                    up = self._pass(request)
                    if kind == "lose":
                        up.settimeout(20)
                        up.recv(65536)
                        up.close()
                        return
                    time.sleep(seconds)
                else:
                    up = self._pass(request)
                if self._tunnel_or_answer(conn, up, request):
                    return
        except OSError:
            pass
        finally:
            conn.close()

    def _tunnel_or_answer(self, conn, up, request):
        """Passes the answer on; True when the connection is used up."""
        head = b""
        while b"\r\n\r\n" not in head:
            more = up.recv(65536)
            if not more:
                return True
            head += more
        conn.sendall(head)
        status = head.split(b" ", 2)[1]
        if status == b"101":
            self.tunnels += [conn, up]
            other = threading.Thread(target=self._copy, args=(conn, up), daemon=True)
            other.start()
            self._copy(up, conn)
            other.join(60)
            up.close()
            return True
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        got = len(head.split(b"\r\n\r\n", 1)[1])
        chunked = re.search(rb"(?i)\r\ntransfer-encoding: *chunked", head)
        if chunked:
            body = head.split(b"\r\n\r\n", 1)[1]
            while not body.endswith(b"0\r\n\r\n"):
                more = up.recv(65536)
                if not more:
                    break
                body += more
                conn.sendall(more)
        elif length and not request.startswith(b"HEAD "):
            while got < int(length.group(1)):
                more = up.recv(65536)
                if not more:
                    break
                got += len(more)
                conn.sendall(more)
        up.close()
        return False

    @staticmethod
    def _copy(a, b):
        try:
            while True:
                data = a.recv(65536)
                if not data:
                    b.shutdown(socket.SHUT_WR)
                    return
                b.sendall(data)
        except OSError:
            pass
