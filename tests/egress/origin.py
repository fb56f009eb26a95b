"""The hosts of the other namespace.

    port 7      echo, with half-close            port 9     closes by reset after the first bytes
    port 21     speaks first ("220 hello")       port 80    HTTP by path, below; port 8080 the same
    port 13     reads nothing, says nothing and stays
    port 443    TLS echo (cert.pem, key.pem)

11.22.33.80 serves the files of the directory www on ports 80 and 443 instead.
"""

import functools
import http.server
import os
import socket
import socketserver
import ssl
import struct
import threading


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024

    def server_bind(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # one address beside all of them
        super().server_bind()

    def handle_error(self, request, address):
        pass  # a client that goes away in the middle is what many tests are about


class Server6(Server):
    address_family = socket.AF_INET6

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()


def echo(sock):
    while data := sock.recv(65536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def reset(sock):
    sock.recv(1)
    sock.sendall(b"part")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def stay(sock):
    threading.Event().wait()


def speak_first(sock):
    sock.sendall(b"220 hello\r\n")
    echo(sock)


class Http:
    """One connection of the HTTP server: raw, so that it can answer as it should not."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b""
        self.served = 0

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.buffer += data

    def head(self):
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        return head

    def take(self, n):
        while len(self.buffer) < n:
            self.more()
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def body(self, head):
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if b"transfer-encoding" in fields:
            body = b""
            while True:
                while b"\r\n" not in self.buffer:
                    self.more()
                line, self.buffer = self.buffer.split(b"\r\n", 1)
                n = int(line, 16)
                body += self.take(n)
                self.take(2)
                if n == 0:
                    return body
        return self.take(int(fields.get(b"content-length", b"0")))

    def send(self, *parts):
        self.sock.sendall(b"".join(p if isinstance(p, bytes) else p.encode() for p in parts))

    def answer(self, body, *fields):
        self.send("HTTP/1.1 200 OK\r\n", *[f"{f}\r\n" for f in fields], f"Content-Length: {len(body)}\r\n\r\n", body)

    def serve(self):
        try:
            while self.one():
                pass
        except (EOFError, ConnectionError, ValueError):
            pass

    def one(self):
        head = self.head()
        path = head.split(b" ", 2)[1].decode("latin-1")
        name, _, argument = path[1:].partition("/")
        handler = getattr(self, "on_" + name.replace("-", "_"), None)
        if name.startswith("early"):
            body = b""
        else:
            if b"\r\nExpect: 100-continue" in head and not path.startswith("/noexpect"):
                self.send("HTTP/1.1 100 Continue\r\n\r\n")
            body = self.body(head)
        self.served += 1
        if handler is None:
            self.answer(head + b"\r\n\r\n" + body, f"X-Served: {self.served}")
            return True
        return handler(head, body, argument)

    def on_chunked(self, head, body, argument):
        self.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        return True

    def on_trailers(self, head, body, argument):
        self.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3;a=b\r\nabc\r\n0\r\nX-T: gone\r\n\r\n")
        return True

    def on_eof(self, head, body, argument):
        self.send("HTTP/1.1 200 OK\r\n\r\nuntil the end")
        return False

    def on_hop(self, head, body, argument):
        self.answer(b"x", "Connection: X-Private, keep-alive", "X-Private: secret", "Keep-Alive: timeout=5",
                    "Proxy-Authenticate: Basic", "Proxy-Status: egressd; error=none", "X-Kept: yes", "Set-Cookie: a=1", "Set-Cookie: b=2")
        return True

    def on_short(self, head, body, argument):
        self.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
        return False

    def on_nothing(self, head, body, argument):
        return False

    def on_garbage(self, head, body, argument):
        self.send("this is not HTTP\r\n\r\n")
        return False

    def on_both(self, head, body, argument):
        self.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        return True

    def on_extra(self, head, body, argument):
        self.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        return True

    def on_204(self, head, body, argument):
        self.send("HTTP/1.1 204 No Content\r\n\r\n")
        return True

    def on_304(self, head, body, argument):
        self.send("HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n")
        return True

    def on_raw(self, head, body, argument):
        """The bytes of the path, in hex; then the next request is waited for."""
        self.send(bytes.fromhex(argument))
        return True

    def on_redirect(self, head, body, argument):
        self.send("HTTP/1.1 302 Found\r\nLocation: http://elsewhere.test/\r\nContent-Length: 0\r\n\r\n")
        return True

    def on_hints(self, head, body, argument):
        self.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        self.send("HTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n")
        self.answer(b"final")
        return True

    def on_hang(self, head, body, argument):
        self.sock.recv(1)
        return False

    def on_close(self, head, body, argument):
        self.answer(b"bye")  # keep-alive by its head, closed all the same
        return False

    def on_big(self, head, body, argument):
        n = int(argument)
        self.send(f"HTTP/1.1 200 OK\r\nContent-Length: {n}\r\n\r\n")
        block = bytes(range(256)) * 256
        while n > 0:
            self.send(block[:n])
            n -= min(n, len(block))
        return True

    def on_early413(self, head, body, argument):
        self.send("HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfull")
        return False

    def on_ws(self, head, body, argument):
        if b"\r\nUpgrade: websocket" not in head:
            self.answer(head)
            return True
        self.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
        echo(self.sock)
        return False

    def on_unasked(self, head, body, argument):
        self.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nraw")
        return False


def handler_of(serve):
    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            try:
                serve(self.request)
            except OSError:
                pass

    return Handler


def tls(context):
    def serve(sock):
        with context.wrap_socket(sock, server_side=True) as secure:
            while data := secure.recv(65536):
                secure.sendall(data)

    return serve


class Files(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass


class FileServer(Server):
    """The certificate is shown by the thread of the connection, so that a slow client stops nobody."""

    context = None

    def finish_request(self, request, address):
        if self.context is not None:
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, address)


def serve_files(directory, context):
    handler = functools.partial(Files, directory=os.path.join(directory, "www"))
    for port, own in ((80, None), (443, context)):
        server = FileServer(("11.22.33.80", port), handler)
        server.context = own
        threading.Thread(target=server.serve_forever, daemon=True).start()


def start(directory):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(directory, "cert.pem"), os.path.join(directory, "key.pem"))
    services = {7: echo, 9: reset, 13: stay, 21: speak_first, 80: lambda s: Http(s).serve(), 8080: lambda s: Http(s).serve(),
                443: tls(context)}
    for port, serve in services.items():
        for server in (Server(("0.0.0.0", port), handler_of(serve)), Server6(("::", port), handler_of(serve))):
            threading.Thread(target=server.serve_forever, daemon=True).start()
    serve_files(directory, context)
