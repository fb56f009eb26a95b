"""A client that sends raw bytes in chosen pieces and reads answers one after the other."""

import array
import fcntl
import socket
import struct
import termios
import threading
import time


class Silent(Exception):
    """Nothing came within the time that a test may take."""


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    @property
    def reason(self):
        return self.fields.get("x-dockerproxy-reason")


class Client:
    LIMIT = 10.0  # seconds; only a broken proxy makes a test wait for it

    def __init__(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(self.LIMIT)
        self.sock.connect(address)
        self.data = b""
        self.ended = False

    def close(self):
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def send(self, data):
        """False when the other side has closed already: its answer may still be readable."""
        try:
            self.sock.sendall(data)
            return True
        except OSError:
            return False

    def shut(self):
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def wait_taken(self):
        """Until the proxy has read what was sent, so that the next piece arrives by itself."""
        queued = array.array("i", [1])
        end = time.monotonic() + self.LIMIT
        while time.monotonic() < end:
            fcntl.ioctl(self.sock, termios.TIOCOUTQ, queued)
            if queued[0] == 0:
                return
        raise Silent("the proxy does not read")

    def peek(self, count):
        """The first bytes of what comes next, which stay to be read."""
        return self.sock.recv(count, socket.MSG_PEEK | socket.MSG_WAITALL)

    def _more(self):
        try:
            more = self.sock.recv(65536)
        except socket.timeout:
            raise Silent("no answer") from None
        except OSError:
            more = b""
        if not more:
            self.ended = True
        self.data += more
        return bool(more)

    def read_answer(self, bodiless=False):
        """The next answer, or None when the connection ended in order before one."""
        while b"\r\n\r\n" not in self.data:
            if not self._more():
                if self.data:
                    raise ValueError(f"cut head {self.data!r}")
                return None
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if words[0] != "HTTP/1.1" or len(words) != 3:
            raise ValueError(f"status line {lines[0]!r}")
        status = int(words[1])
        fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        if status < 200 or status in (204, 304) or bodiless:
            return Answer(status, fields, b"")
        if fields.get("transfer-encoding") == "chunked":
            return Answer(status, fields, self._chunked())
        if "content-length" in fields:
            return Answer(status, fields, self._exactly(int(fields["content-length"])))
        while self._more():
            pass
        body, self.data = self.data, b""
        return Answer(status, fields, body)

    def _exactly(self, n):
        while len(self.data) < n:
            if not self._more():
                raise EOFError(f"body cut after {len(self.data)} of {n}")
        body, self.data = self.data[:n], self.data[n:]
        return body

    def _chunked(self):
        body = b""
        while True:
            while b"\r\n" not in self.data:
                if not self._more():
                    raise EOFError("cut in a chunk size")
            size, _, self.data = self.data.partition(b"\r\n")
            n = int(size, 16)
            body += self._exactly(n)
            if self._exactly(2) != b"\r\n":
                raise ValueError("chunk end")
            if n == 0:
                return body

    def exchange(self, data, change):
        """Sends data and reads as much at the same time: what comes back has to be change(data)."""
        sender = threading.Thread(target=self.send, args=(data,))
        sender.start()
        got = self._exactly(len(data))
        sender.join()
        if got != change(data):
            raise ValueError("the tunnel changed what it carried")

    def read_rest(self):
        while not self.ended:
            self._more()
        rest, self.data = self.data, b""
        return rest

    def is_open(self):
        """True when neither an end nor a byte waits to be read."""
        if self.data or self.ended:
            return False
        self.sock.setblocking(False)
        try:
            return self.sock.recv(1, socket.MSG_PEEK) is None
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self.sock.settimeout(self.LIMIT)
