"""A stub engine on a unix socket: records every byte that it is sent and answers by a small table or a case's script."""

import json
import os
import socket
import struct
import threading

API = "1.41"
FIELDS = "Api-Version: 1.47\r\nDocker-Experimental: false\r\nServer: Docker/28.0\r\n"
OWN_ID = "c" * 64  # its name is allowed
FOREIGN_ID = "f" * 64  # its name is not
EXEC_ID = "e" * 64  # an exec of OWN_ID
FOREIGN_EXEC_ID = "d" * 64


def json_answer(status, value):
    body = json.dumps(value, separators=(",", ":"))
    return (
        f"HTTP/1.1 {status} X\r\n{FIELDS}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )


def container(cid, name):
    return {"Id": cid, "Name": "/" + name, "Config": {"Labels": {"dev.capybara.sandbox": "1"}}}


CONTAINERS = {
    OWN_ID: container(OWN_ID, "cap-own"),
    FOREIGN_ID: container(FOREIGN_ID, "kernel"),
    "cap-w": container("a" * 64, "cap-w"),
}
EXECS = {EXEC_ID: OWN_ID, FOREIGN_EXEC_ID: FOREIGN_ID}


def route(method, target, upgrade):
    """The answer to a request that no script covers; (text, tunnel)."""
    path = target.split("?")[0]
    parts = path.split("/")[2:] if path.startswith("/v1.") else path.split("/")[1:]
    if parts == ["_ping"]:
        body = "" if method == "HEAD" else "OK"
        return f"HTTP/1.1 200 OK\r\n{FIELDS}Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{body}", False
    if parts == ["version"]:
        return json_answer(200, {"ApiVersion": "1.47", "MinAPIVersion": "1.24"}), False
    if len(parts) == 3 and parts[0] == "containers" and parts[2] == "json":
        found = CONTAINERS.get(parts[1])
        return (json_answer(200, found) if found else json_answer(404, {"message": "No such container"})), False
    if len(parts) == 3 and parts[0] == "exec" and parts[2] == "json":
        found = EXECS.get(parts[1])
        return (
            json_answer(200, {"ID": parts[1], "ContainerID": found, "Running": True})
            if found
            else json_answer(404, {"message": "No such exec instance"})
        ), False
    if len(parts) == 3 and parts[0] == "exec" and parts[2] == "start":
        if upgrade:
            return (
                "HTTP/1.1 101 UPGRADED\r\n" + FIELDS + "Content-Type: application/vnd.docker.raw-stream\r\n"
                "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
            ), True
        return (
            "HTTP/1.1 200 OK\r\n" + FIELDS + "Content-Type: application/vnd.docker.raw-stream\r\n"
            "Connection: close\r\n\r\n"
        ), True
    if len(parts) == 3 and parts[0] == "containers" and parts[2] == "exec":
        return json_answer(201, {"Id": EXEC_ID}), False
    if parts[:2] == ["containers", "create"]:
        return json_answer(201, {"Id": OWN_ID, "Warnings": []}), False
    return f"HTTP/1.1 204 No Content\r\n{FIELDS}\r\n", False


class Engine:
    """One thread a connection; all that matters is under one lock."""

    def __init__(self, path):
        self.path = path
        self.changed = threading.Condition()
        self.requests = []  # bytes of each, head and body
        self.stray = b""  # bytes that are no whole request
        self.script = []  # of the running case: taken from the front, one a request that matches
        self.received = {}  # tunnel bytes, by the request that opened it
        self.ended = 0  # connections that the proxy closed while a scripted answer was held
        self.let_go = threading.Event()  # a scripted answer's "gate" opens
        self.connections = set()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()
        os.unlink(self.path)

    def begin(self, script):
        """Forgets the last case; returns what it left behind unasked."""
        with self.changed:
            left = self.requests, self.stray
            self.requests, self.stray, self.script = [], b"", list(script or [])
            self.received, self.ended = {}, 0
            self.let_go.clear()
            return left

    def wait_for(self, condition, seconds):
        with self.changed:
            return self.changed.wait_for(lambda: condition(self), seconds)

    def drop_all(self):
        """Ends every connection, as an engine that is restarted does; returns when that is done."""
        with self.changed:
            for connection in self.connections:
                connection.shutdown(socket.SHUT_RDWR)
            self.changed.wait_for(lambda: not self.connections)

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _note(self, change):
        with self.changed:
            change()
            self.changed.notify_all()

    def _take_script(self, first_line):
        with self.changed:
            for i, entry in enumerate(self.script):
                if first_line.startswith(entry.get("match", "")):
                    return self.script.pop(i)
        return None

    def _serve(self, connection):
        self._note(lambda: self.connections.add(connection))
        try:
            self._converse(connection)
        finally:
            self._note(lambda: self.connections.discard(connection))

    def _converse(self, connection):
        data = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in data:
                    try:
                        more = connection.recv(65536)
                    except OSError:
                        more = b""
                    if not more:
                        if data:
                            self._note(lambda: setattr(self, "stray", self.stray + data))
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                fields = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
                length = int(fields.get("content-length", "0"))
                while len(data) < length:
                    more = connection.recv(65536)
                    if not more:
                        break
                    data += more
                body, data = data[:length], data[length:]
                entry = self._take_script(lines[0])
                self._note(lambda: self.requests.append(head + b"\r\n\r\n" + body))
                method, target = lines[0].split(" ")[:2]
                try:
                    if entry is not None:
                        if not self._play(connection, entry):
                            return
                        continue
                    text, tunnel = route(method, target, fields.get("upgrade") == "tcp")
                    connection.sendall(text.encode("latin-1"))
                    if tunnel:
                        self._echo(connection, lines[0], data)
                        return
                except OSError:
                    return

    def _play(self, connection, entry):
        """Sends the script's parts; true when the connection goes on."""
        then = entry.get("then", "keep")
        try:
            for part in entry.get("parts", []):
                text = part if isinstance(part, str) else part[0] * part[1]
                connection.sendall(text.encode("latin-1"))
            if "gate" in entry:
                self.let_go.wait()
                connection.sendall("".join(entry["gate"]).encode("latin-1"))
        except OSError:
            if then != "hold":
                raise
            self._note(lambda: setattr(self, "ended", self.ended + 1))
            return False
        if then == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if then == "hold":  # says nothing more; notes when the proxy lets go
            while True:
                try:
                    if not connection.recv(65536):
                        break
                except OSError:
                    break
            self._note(lambda: setattr(self, "ended", self.ended + 1))
            return False
        if then == "tunnel":
            self._echo(connection, entry["match"], b"")
            return False
        return then == "keep"

    def _echo(self, connection, name, data):
        """Upper-cases what comes until the end of input, says BYE and closes: a half-close has to get through."""
        while True:
            if data:
                self._note(lambda: self.received.update({name: self.received.get(name, b"") + data}))
                connection.sendall(data.upper())
            data = connection.recv(65536)
            if not data:
                break
        connection.sendall(b"BYE")
