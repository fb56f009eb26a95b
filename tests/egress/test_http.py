"""Plain HTTP: each request judged, heads written anew, bodies streamed, connections kept."""

import os
import socket

import base
from base import PUBLIC
from dns import Zone
from proxy import wait_for


class Http(base.Case):
    env = {"ALLOW_HOSTS": "allowed.test other.test", "TIMEOUT_RESPONSE": "500ms"}

    def setUp(self):
        super().setUp()
        self.dns.zones["other.test"] = Zone(["11.22.33.2"])

    def request(self, conn, url, method="GET", fields=(), body=b""):
        conn.send("".join([f"{method} {url} HTTP/1.1\r\nHost: ignored.test\r\n", *[f"{f}\r\n" for f in fields], "\r\n"]))
        conn.send(body)
        return conn.answer(method == "HEAD")

    def test_head_for_the_origin(self):
        conn = self.egressd.connect()
        status, fields, body = self.request(conn, "http://Allowed.TEST:80/a/b?c=d", fields=(
            "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic c2VjcmV0", "Proxy-Authenticate: x", "proxy-anything: x",
            "Connection: keep-alive, X-Hop, HTTP2-Settings, Upgrade", "X-Hop: gone", "HTTP2-Settings: gone", "Upgrade: h2c",
            "Keep-Alive: timeout=1", "TE: trailers", "Authorization: Bearer kept", "Cookie: kept", "X-Forwarded-For: 1.2.3.4",
            "Accept: */*"))
        self.assertEqual(status, 200)
        self.assertEqual(body.decode().split("\r\n\r\n")[0].split("\r\n"), [
            "GET /a/b?c=d HTTP/1.1", "Host: allowed.test", "Authorization: Bearer kept", "Cookie: kept",
            "X-Forwarded-For: 1.2.3.4", "Accept: */*"])

    def test_targets(self):
        for url, line in (("http://allowed.test", "GET / HTTP/1.1"), ("http://allowed.test?q", "GET /?q HTTP/1.1"),
                          ("HTTP://allowed.test./%2e%2e/x", "GET /%2e%2e/x HTTP/1.1"),
                          ("http://allowed.test//double", "GET //double HTTP/1.1")):
            status, _, body = self.request(self.egressd.connect(), url)
            self.assertEqual((status, body.decode().split("\r\n")[:2]), (200, [line, "Host: allowed.test"]))

    def test_each_request_of_a_connection_is_judged(self):
        conn = self.egressd.connect()
        self.assertEqual(self.request(conn, "http://allowed.test/")[0], 200)
        self.assert_refused(self.request(conn, "http://evil.test/"), 403, "host-not-allowed")
        self.assertEqual(self.request(conn, "http://other.test/")[0], 200)
        self.assertEqual(self.request(conn, "http://allowed.test/")[0], 200)
        self.assertEqual([d["decision"] for d in self.egressd.decisions()], ["allow", "deny", "allow", "allow"])

    def test_pipelined(self):
        conn = self.egressd.connect()
        conn.send("GET http://allowed.test/1 HTTP/1.1\r\nHost: a\r\n\r\nGET http://evil.test/2 HTTP/1.1\r\nHost: a\r\n\r\n"
                  "GET http://allowed.test/3 HTTP/1.1\r\nHost: a\r\n\r\n" + "GET http://evil.test/ HTTP/1.1\r\nHost: a\r\n\r\n" * 300
                  + "GET http://other.test/last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answers = [conn.answer() for _ in range(304)]
        self.assertEqual([a[0] for a in answers], [200, 403, 200] + [403] * 300 + [200])
        self.assertIn(b"GET /last", answers[-1][2])
        self.assertTrue(conn.closed())

    def test_origin_connection_serves_the_next_request(self):
        conn = self.egressd.connect()
        served = [self.request(conn, f"http://allowed.test/{i}")[1]["x-served"] for i in range(3)]
        self.assertEqual(served, ["1", "2", "3"])
        self.assertEqual(self.request(conn, "http://other.test/")[1]["x-served"], "1")
        # and never another client's
        self.assertEqual(self.request(self.egressd.connect(), "http://allowed.test/")[1]["x-served"], "1")

    def test_kept_connection_that_was_closed(self):
        conn = self.egressd.connect()
        self.assertEqual(self.request(conn, "http://allowed.test/close")[2], b"bye")
        for _ in range(5):
            self.assertEqual(self.request(conn, "http://allowed.test/close")[2], b"bye")

    def test_bodies(self):
        conn = self.egressd.connect()
        body = os.urandom(300000)
        status, _, echoed = self.request(conn, "http://allowed.test/", "POST", [f"Content-Length: {len(body)}"], body)
        self.assertEqual((status, echoed.split(b"\r\n\r\n", 1)[1]), (200, body))
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in (body[:10], body[10:70000], body[70000:])) + b"0\r\n\r\n"
        status, _, echoed = self.request(conn, "http://allowed.test/", "PUT", ["Transfer-Encoding: Chunked"], chunks)
        head, got = echoed.split(b"\r\n\r\n", 1)
        self.assertEqual((status, got), (200, body))
        self.assertIn(b"Transfer-Encoding: chunked", head)
        self.assertEqual(self.request(conn, "http://allowed.test/chunked")[2], b"abcdefg")
        self.assertEqual(self.request(conn, "http://allowed.test/x", "HEAD")[2], b"")
        self.assertEqual(self.request(conn, "http://allowed.test/204")[0], 204)
        self.assertEqual(self.request(conn, "http://allowed.test/304")[0], 304)
        status, fields, got = self.request(conn, "http://allowed.test/big/5000000")
        self.assertEqual(len(got), 5000000)
        status, fields, got = self.request(conn, "http://allowed.test/eof")
        self.assertEqual((fields["connection"], got), ("close", b"until the end"))

    def test_chunk_extensions_and_trailers_of_an_origin_end_here(self):
        conn = self.egressd.connect().send("GET http://allowed.test/trailers HTTP/1.1\r\nHost: a\r\n\r\n")
        status, _, fields = conn.head()
        self.assertEqual((status, fields), (200, [("Transfer-Encoding", "chunked")]))
        self.assertEqual(conn.take(13), b"3\r\nabc\r\n0\r\n\r\n")
        self.assertEqual(self.request(conn, "http://allowed.test/next")[0], 200)

    def test_http_1_0_client(self):
        conn = self.egressd.connect().send("GET http://allowed.test/chunked HTTP/1.0\r\n\r\n")
        status, fields, body = conn.answer()
        self.assertEqual((status, body), (200, b"abcdefg"))
        self.assertNotIn("transfer-encoding", fields)
        self.assertTrue(conn.closed())

    def test_half_close_after_the_request(self):
        conn = self.egressd.connect().send("GET http://allowed.test/ HTTP/1.1\r\nHost: a\r\n\r\n").half_close()
        self.assertEqual(conn.answer()[0], 200)
        self.assertTrue(conn.closed())

    def test_bad_chunks(self):
        for bad in (b"zz\r\n", b"5;ext=1\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"3\nabc\n0\n\n",
                    b"0\r\nX-Trailer: y\r\n\r\n"):
            conn = self.egressd.connect()
            conn.send(b"POST http://allowed.test/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + bad)
            self.assertEqual(conn.answer()[0], 400, bad)
            self.assertTrue(conn.closed())

    def test_expect_continue(self):
        conn = self.egressd.connect()
        conn.send("POST http://allowed.test/ HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        self.assertEqual(conn.head()[0], 100)
        conn.send(b"abc")
        status, _, body = conn.answer()
        self.assertEqual((status, body[-3:]), (200, b"abc"))

    def test_interim_answers_are_passed_on(self):
        conn = self.egressd.connect().send("GET http://allowed.test/hints HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual([conn.head()[0], conn.head()[0]], [103, 103])
        self.assertEqual(conn.answer()[2], b"final")
        conn = self.egressd.connect().send("GET http://allowed.test/hints HTTP/1.0\r\n\r\n")
        self.assertEqual(conn.answer()[0], 200)

    def test_fields_of_the_answer(self):
        conn = self.egressd.connect()
        conn.send("GET http://allowed.test/hop HTTP/1.1\r\nHost: a\r\n\r\n")
        status, _, fields = conn.head()
        self.assertEqual(fields, [("X-Kept", "yes"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Length", "1")])

    def test_redirect_is_the_clients(self):
        status, fields, _ = self.request(self.egressd.connect(), "http://allowed.test/redirect")
        self.assertEqual((status, fields["location"]), (302, "http://elsewhere.test/"))
        self.assertEqual({q[0] for q in self.dns.questions()}, {"allowed.test"})

    def test_who_is_late_with_a_body(self):
        """The client, that sends half of it; the host, that is to ask for it and does not."""
        conn = self.egressd.connect().send("POST http://allowed.test/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        self.assert_refused(conn.answer(), 408, "body-timeout")
        self.assertTrue(conn.closed())
        conn = self.egressd.connect().send("POST http://allowed.test/noexpect HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                                           "Content-Length: 10\r\n\r\n")
        self.assert_refused(conn.answer(), 504, "origin-timeout")

    def test_answers_that_are_none(self):
        for path, status, reason in (("nothing", 502, "origin-closed"), ("garbage", 502, "origin-malformed"),
                                     ("hang", 504, "origin-timeout"), ("unasked", 502, "origin-upgrade")):
            with self.subTest(path=path):
                answer = self.request(self.egressd.connect(), f"http://allowed.test/{path}")
                self.assert_refused(answer, status, reason)

    def raw(self, answer, method="GET", fields=()):
        """What the client gets of this answer, up to the next one, which must be the next request's."""
        conn = self.egressd.connect()
        status, named, body = self.request(conn, f"http://allowed.test/raw/{answer.hex()}", method, fields)
        if named.get("connection") == "close":
            self.assertTrue(conn.closed())
        else:
            again = self.request(conn, "http://allowed.test/second")
            self.assertEqual((again[0], again[2].split(b"\r\n")[0]), (200, b"GET /second HTTP/1.1"))
        return status, named, body

    def test_answers_that_could_be_read_twice(self):
        ok, smuggled = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        for fields in (b"Content-Length: 3\r\nContent-Length: 4", b"Content-Length: 3, 4", b"Content-Length: +3", b"Content-Length: -1",
                       b"Content-Length: 0x3", b"Content-Length: 99999999999999999999", b"Content-Length: 3 3", b"Content-Length:",
                       b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked, gzip", b"Transfer-Encoding: identity",
                       b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: xchunked",
                       b"X: a\rb", b"X: a\0b", b"X : a", b"X Y: a", b": a", b"X", b"Content-Length : 3",
                       b"\x0bTransfer-Encoding: chunked", b"Transfer-Encoding\x00: chunked"):
            with self.subTest(fields=fields):
                status, named, body = self.raw(ok + fields + b"\r\n\r\nabc" + smuggled)
                self.assertNotIn(b"evil", body)
                self.assertEqual((status, named[":phrase"].rpartition("(")[2]), (502, "origin-malformed)"))

    def test_start_lines_of_answers(self):
        for line in (b"HTTP/2.0 200 OK", b"HTTP/1.1 2000 OK", b"HTTP/1.1 20 OK", b"HTTP/1.1 099 x", b"HTTP/1.1 abc", b"ICY 200 OK",
                     b"HTTP/1.1  200 OK", b"http/1.1 200 OK", b"\r\n\r\nHTTP/1.1 200", b"HTTP/1.1 200 a\0b", b"HTTP/1.1 999999999999"):
            with self.subTest(line=line):
                self.assertEqual(self.raw(line + b"\r\nContent-Length: 3\r\n\r\nabc")[0], 502)
        self.assertEqual(self.raw(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc")[2], b"abc")

    def test_chunks_of_answers(self):
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for chunks in (b"zz\r\n", b"-1\r\nabc\r\n", b"0x3\r\nabc\r\n", b"ffffffffffffffffff\r\nabc", b"3\r\nabcd\r\n0\r\n\r\n",
                       b"3\r\nab\r\n0\r\n\r\n", b" 3\r\nabc\r\n0\r\n\r\n", b"+3\r\nabc\r\n"):
            with self.subTest(chunks=chunks):
                conn = self.egressd.connect()
                conn.send(f"GET http://allowed.test/raw/{(head + chunks).hex()} HTTP/1.1\r\nHost: a\r\n\r\n")
                try:
                    whole = b"0\r\n\r\n" in conn.rest()
                except ConnectionResetError:
                    whole = False
                self.assertFalse(whole, "a cut answer must not look whole")

    def test_answers_without_a_body(self):
        """HEAD, 204 and 304 end with their head, whatever their fields say; what follows is nobody's answer."""
        more = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        for status, method in ((200, "HEAD"), (204, "GET"), (304, "GET")):
            for fields in (b"Content-Length: 45\r\n", b"Transfer-Encoding: chunked\r\n", b""):
                if status == 204 and fields:
                    continue  # a server may not send them there (RFC 9110 section 8.6)
                with self.subTest(status=status, method=method, fields=fields):
                    got, named, body = self.raw(b"HTTP/1.1 %d X\r\n%s\r\n%s" % (status, fields, more), method)
                    self.assertEqual((got, body), (status, b""))

    def test_too_many_interim_answers(self):
        final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        conn = self.egressd.connect()
        conn.send(f"GET http://allowed.test/raw/{(b'HTTP/1.1 102 x' + b'%c%c%c%c' % (13, 10, 13, 10)).hex() * 40}{final.hex()} "
                  "HTTP/1.1\r\nHost: a\r\n\r\n")
        seen = 0
        with self.assertRaises((EOFError, ConnectionResetError)):
            while conn.head()[0] == 102:
                seen += 1
        self.assertLessEqual(seen, 16)

    def test_101_is_for_who_asked(self):
        for answer in (b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw",
                       b"HTTP/1.1 101 X\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"):
            self.assertEqual(self.raw(answer)[0], 502)

    def test_cut_answer_is_not_whole(self):
        conn = self.egressd.connect().send("GET http://allowed.test/short HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(conn.head()[0], 200)
        with self.assertRaises((EOFError, ConnectionResetError)):
            conn.take(100)
        self.assertEqual(self.egressd.last("close")["reason"], "origin-closed")

    def test_length_and_coding_in_an_answer(self):
        conn = self.egressd.connect()
        status, fields, body = self.request(conn, "http://allowed.test/both")
        self.assertEqual((status, body), (200, b"abc"))
        self.assertNotIn("content-length", fields)

    def test_more_than_was_asked_for_is_nobodys_answer(self):
        conn = self.egressd.connect()
        self.assertEqual(self.request(conn, "http://allowed.test/extra")[2], b"ok")
        status, fields, body = self.request(conn, "http://allowed.test/next")
        self.assertIn(b"GET /next", body)
        self.assertEqual(fields["x-served"], "1")

    def test_early_answer_to_an_upload(self):
        conn = self.egressd.connect()
        conn.send("POST http://allowed.test/early413 HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n" + "x" * 100000)
        status, fields, body = conn.answer()
        self.assertEqual((status, fields["connection"], body), (413, "close", b"full"))

    def test_websocket_only_after_101(self):
        conn = self.egressd.connect().send("GET http://allowed.test/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                                           "Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n")
        status, _, fields = conn.head()
        self.assertEqual((status, dict(fields)), (101, {"Connection": "Upgrade", "Upgrade": "websocket"}))
        self.assertEqual(conn.take(5), b"first")
        conn.send(b"\x81\x02hi")
        self.assertEqual(conn.take(4), b"\x81\x02hi")
        conn.half_close()
        self.assertTrue(conn.closed())

    def test_other_upgrades_are_left_out(self):
        for fields in (("Connection: Upgrade", "Upgrade: h2c"), ("Upgrade: websocket",), ("Connection: Upgrade",)):
            status, _, body = self.request(self.egressd.connect(), "http://allowed.test/ws", fields=fields)
            self.assertEqual(status, 200)
            self.assertNotIn(b"upgrade", body.lower())
        answer = self.request(self.egressd.connect(), "http://allowed.test/unasked",
                              fields=("Connection: Upgrade", "Upgrade: websocket"))
        self.assert_refused(answer, 502, "origin-upgrade")

    def test_slow_reader_keeps_memory_flat(self):
        conn = self.egressd.connect()
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        before = int(self.egressd.memory()["VmRSS"].split()[0])
        conn.send("GET http://allowed.test/big/100000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(conn.head()[0], 200)
        last = None
        while (now := self.egressd.memory()["voluntary_ctxt_switches"]) != last:
            last = now
            wait_for(lambda: self.egressd.process.poll() is None, "a turn")
            conn.sock.settimeout(20)
            import time
            time.sleep(0.3)
        self.assertLess(int(self.egressd.memory()["VmRSS"].split()[0]) - before, 8192)
        self.assertEqual(len(conn.take(100000000)), 100000000)

    def test_idle_connection_ends(self):
        e = self.start({**self.env, "TIMEOUT_KEEP_ALIVE": "200ms"})
        conn = e.connect()
        self.assertEqual(self.request(conn, "http://allowed.test/")[0], 200)
        self.assertTrue(conn.closed())

    def test_life_of_one_exchange(self):
        """Of one without an answer, and of one whose answer goes on and on."""
        e = self.start({"ALLOW_HOSTS": "allowed.test", "TIMEOUT_CONNECTION": "2s"})
        conn = e.connect().send("GET http://allowed.test/hang HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assert_refused(conn.answer(), 403, "budget-exhausted")
        conn = e.connect(receive=2048).send("GET http://allowed.test/big/1000000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(conn.head()[0], 200)
        with self.assertRaises((EOFError, ConnectionResetError)):
            conn.take(1000000000)

    def test_budget_of_one_exchange(self):
        e = self.start({**self.env, "LIMITS_CONNECTION_BYTES": "1000"})
        conn = e.connect().send("GET http://allowed.test/big/100000 HTTP/1.1\r\nHost: a\r\n\r\n")
        with self.assertRaises((EOFError, ConnectionResetError)):
            conn.head()
            conn.take(100000)
        self.assertEqual(e.last("close")["reason"], "budget-exhausted")
