"""Tunnels: what goes through, what ends them, and what a ClientHello must say."""

import os
import socket
import ssl
import struct

import base
from base import PUBLIC
from dns import Zone
from proxy import wait_for


def hello(name, ech=False, compress=True, pad=0):
    """A TLS 1.3 ClientHello record; name None: no server name; bytes: as they are."""
    extensions = b""
    if name is not None:
        raw = name if isinstance(name, bytes) else name.encode()
        entry = b"\0" + struct.pack(">H", len(raw)) + raw
        extensions += struct.pack(">HHH", 0, len(entry) + 2, len(entry)) + entry
    if ech:
        extensions += struct.pack(">HH", 0xfe0d, 8) + b"\0" * 8
    if pad:
        extensions += struct.pack(">HH", 21, pad) + b"\0" * pad
    body = b"\x03\x03" + os.urandom(32) + b"\0" + struct.pack(">H", 2) + b"\x13\x01" + b"\x01\0"
    body += struct.pack(">H", len(extensions)) + extensions
    return b"\x01" + struct.pack(">I", len(body))[1:] + body


def record(payload, kind=22):
    return struct.pack(">BHH", kind, 0x0301, len(payload)) + payload


class Sni(base.Case):
    env = {"ALLOW_HOSTS": "allowed.test tls.test free.test", "SNI_EXEMPT": "free.test", "TIMEOUT_HELLO": "400ms"}

    def setUp(self):
        super().setUp()
        self.dns.zones["tls.test"] = Zone([PUBLIC])
        self.dns.zones["free.test"] = Zone([PUBLIC])

    def open(self, target="allowed.test:443"):
        status, conn = self.egressd.tunnel(target)
        self.assertEqual(status, 200)
        return conn

    def cut_by(self, *parts, reason):
        conn = self.open()
        for part in parts:
            conn.send(part)
        self.assertTrue(conn.closed())
        decisions = [(d["decision"], d.get("reason")) for d in self.egressd.decisions()]
        self.assertEqual(decisions[-1], ("deny", reason))
        self.assertEqual(self.egressd.lines("close")[-1]["reason"], reason)

    def test_a_real_client(self):
        context = ssl.create_default_context(cafile=os.path.join(base.directory, "cert.pem"))
        conn = self.open()
        with context.wrap_socket(conn.sock, server_hostname="allowed.test") as secure:
            secure.sendall(b"through TLS")
            self.assertEqual(secure.recv(100), b"through TLS")

    def test_case_of_the_name(self):
        conn = self.open("ALLOWED.test.:443")
        conn.send(record(hello("Allowed.Test")))
        self.assertEqual(conn.take(3)[:1], b"\x15")  # the origin's alert: it saw the hello

    def test_mismatch(self):
        self.cut_by(record(hello("evil.test")), reason="sni-mismatch")

    def test_mismatch_with_another_allowed_host(self):
        self.cut_by(record(hello("tls.test")), reason="sni-mismatch")

    def test_missing(self):
        self.cut_by(record(hello(None)), reason="sni-missing")

    def test_not_tls(self):
        self.cut_by(b"SSH-2.0-x\r\n", reason="sni-not-tls")
        self.cut_by(b"GET / HTTP/1.1\r\n\r\n", reason="sni-not-tls")
        self.cut_by(record(b"\x01", 20) + record(hello("allowed.test")), reason="sni-not-tls")  # ChangeCipherSpec first
        self.cut_by(b"\x80\x2e\x01\x03\x01\x00\x15", reason="sni-not-tls")  # the hello of SSL 2

    def test_outer_name_of_an_encrypted_hello(self):
        self.cut_by(record(hello("public.test", ech=True)), reason="sni-ech")
        conn = self.open()
        conn.send(record(hello("allowed.test", ech=True)))
        self.assertEqual(conn.take(3)[:1], b"\x15")

    def test_malformed(self):
        good = hello("allowed.test")
        for bad in (record(b"\x02" + good[1:]), record(good[:-2] + b"\xff\xff\xff\xff"), record(b""),
                    record(hello(b"allowed.test\0")), record(hello(b"allowed.test.")), record(hello(b"")),
                    record(hello(b"127.0.0.1")), record(b"\x01\xff\xff\xff"), record(good[:60]) + record(b"x", 23)):
            self.cut_by(bad, reason="sni-malformed")

    def test_split_over_segments_and_records(self):
        whole = hello("allowed.test", pad=3000)
        pieces = [record(whole[i:i + 700]) for i in range(0, len(whole), 700)]
        conn = self.open()
        conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"".join(pieces):
            conn.send(bytes([byte]))
        self.assertEqual(conn.take(3)[:1], b"\x15")
        evil = hello("evil.test")
        self.cut_by(*[record(evil[i:i + 1]) for i in range(30)], record(evil[30:]), reason="sni-mismatch")
        self.cut_by(*[record(evil[i:i + 1]) for i in range(len(evil))], reason="sni-malformed")  # too many records

    def test_early_hello_in_the_segment_of_the_head(self):
        conn = self.egressd.connect().send(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n" + record(hello("allowed.test")))
        self.assertEqual(conn.head()[0], 200)
        self.assertEqual(conn.take(3)[:1], b"\x15")

    def test_a_client_that_leaves_before_its_hello(self):
        """A connection that was opened ahead of need and given up is no offence."""
        self.open().half_close().closed()
        entry = self.egressd.last("close")
        self.assertEqual((entry["reason"], entry["bytesIn"]), ("closed", 0))
        self.assertEqual([d["decision"] for d in self.egressd.decisions()], ["allow"])
        self.open().send(record(hello("allowed.test"))[:20]).half_close().closed()
        self.assertEqual(self.egressd.last("close", 2)["reason"], "sni-malformed")

    def test_silence(self):
        self.cut_by(reason="sni-timeout")

    def test_exempt_host_and_switch(self):
        conn = self.open("free.test:443")
        conn.send(record(hello("evil.test")))
        self.assertEqual(conn.take(1), b"\x15")
        e = self.start({"ALLOW_HOSTS": "allowed.test", "REQUIRE_SNI": "off"})
        status, conn = e.tunnel("allowed.test:443")
        conn.send(record(hello("evil.test")))
        self.assertEqual(conn.take(1), b"\x15")

    def test_warn_mode_writes_it_down(self):
        e = self.start({**self.env, "MODE": "warn"})
        status, conn = e.tunnel("allowed.test:443")
        conn.send(record(hello("evil.test")))
        self.assertEqual(conn.take(1), b"\x15")
        self.assertIn(("warn", "sni-mismatch"), [(d["decision"], d.get("reason")) for d in e.decisions()])


class Relay(base.Case):
    env = {"ALLOW_HOSTS": "allowed.test other.test", "ALLOW_CONNECT_PORTS": "7,9,21"}

    def open(self, port=7):
        status, conn = self.egressd.tunnel(f"allowed.test:{port}")
        self.assertEqual(status, 200)
        return conn

    def test_early_bytes_and_half_close(self):
        before = len(self.egressd.lines("close"))
        conn = self.egressd.connect().send(b"CONNECT allowed.test:7 HTTP/1.1\r\n\r\nearly ")
        self.assertEqual(conn.head()[0], 200)
        conn.send(b"late").half_close()
        self.assertEqual(conn.rest(), b"early late")
        entry = self.egressd.last("close", before + 1)
        self.assertEqual((entry["reason"], entry["bytesIn"], entry["bytesOut"]), ("closed", 10, 10))
        self.assertGreater(entry["durationUs"], self.egressd.decisions()[-1]["durationUs"])

    def test_server_that_speaks_first(self):
        self.assertEqual(self.open(21).take(11), b"220 hello\r\n")

    def test_reset_stays_a_reset(self):
        before = len(self.egressd.lines("close"))
        conn = self.open(9)
        conn.send(b"x")
        self.assertEqual(conn.take(4), b"part")
        with self.assertRaises(ConnectionResetError):
            conn.sock.recv(1)
        self.assertEqual(self.egressd.last("close", before + 1)["reason"], "reset")

    def test_much_both_ways_with_a_slow_reader(self):
        import threading
        conn = self.open()
        # More than the kernel's buffers on the way can grow to: three sockets that send, three that receive.
        size = 160 * 1024 * 1024
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        block = bytes(range(256)) * 4096
        before = int(self.egressd.memory()["VmRSS"].split()[0])

        def send():
            for _ in range(size // len(block)):
                conn.send(block)
            conn.half_close()

        sender = threading.Thread(target=send)
        sender.start()
        # The reader waits until nothing moves: the sender is stopped by back-pressure alone.
        last = None
        while (now := self.egressd.memory()["voluntary_ctxt_switches"]) != last:
            last = now
            sender.join(0.3)
        self.assertTrue(sender.is_alive())
        self.assertLess(int(self.egressd.memory()["VmRSS"].split()[0]) - before, 8192)
        got = 0
        while data := conn.sock.recv(1 << 20):
            self.assertEqual(data[0], got % 256)
            got += len(data)
        self.assertEqual(got, size)
        sender.join()

    def test_budget_of_one_tunnel(self):
        e = self.start({**self.env, "LIMITS_CONNECTION_BYTES": "1000"})
        status, conn = e.tunnel("allowed.test:7")
        conn.send(b"x" * 5000)
        try:
            self.assertLessEqual(len(conn.rest()), 1000)
        except ConnectionResetError:
            pass
        self.assertEqual(e.last("close")["reason"], "bytes")

    def test_idle_and_life_and_half_closed(self):
        for name, env in (("idle", {"TIMEOUT_IDLE": "200ms"}), ("lifetime", {"TIMEOUT_CONNECTION": "200ms"})):
            e = self.start({**self.env, **env})
            status, conn = e.tunnel("allowed.test:7")
            self.assertTrue(conn.closed())
            self.assertEqual(e.last("close")["reason"], name)
        e = self.start({**self.env, "ALLOW_CONNECT_PORTS": "13", "TIMEOUT_HALF_CLOSED": "200ms"})
        status, conn = e.tunnel("allowed.test:13")
        self.assertEqual(status, 200)
        self.assertTrue(conn.half_close().closed())
        self.assertEqual(e.last("close")["reason"], "idle")

    def test_caps(self):
        e = self.start({**self.env, "LIMITS_CONNECTIONS": "4", "LIMITS_PER_HOST": "2"})
        self.dns.zones["other.test"] = Zone([PUBLIC])
        first = [e.tunnel("allowed.test:7") for _ in range(3)]
        self.assertEqual([s for s, _ in first], [200, 200, 503])
        first[2][1].close()
        wait_for(lambda: e.tunnel("other.test:7")[0] == 200, "room for another host")
        held = [e.tunnel("other.test:7") for _ in range(3)]
        self.assertIn(503, [s for s, _ in held])
        reasons = {d.get("reason") for d in e.lines("decision")}
        self.assertIn("host-capacity", reasons)
        first[0][1].close()
        first[1][1].close()
        for _, conn in held:
            conn.close()
        wait_for(lambda: e.tunnel("allowed.test:7")[0] == 200, "room after the others left")

    def test_full_says_so(self):
        e = self.start({**self.env, "LIMITS_CONNECTIONS": "2"})
        one = [e.tunnel("allowed.test:7") for _ in range(2)]
        self.assertEqual([s for s, _ in one], [200, 200])
        answer = e.connect().answer()
        self.assert_refused(answer, 503, "capacity")
        self.assertEqual(answer[1]["retry-after"], "1")

    def test_budget_of_all(self):
        e = self.start({**self.env, "LIMITS_TOTAL_BYTES": "1000"})
        status, conn = e.tunnel("allowed.test:7")
        conn.send(b"x" * 2000)
        self.assertRaises((ConnectionResetError, AssertionError), lambda: self.assertEqual(len(conn.rest()), -1))
        wait_for(lambda: e.tunnel("allowed.test:7")[0] == 403, "the budget to be noticed")
        self.assertEqual(e.decisions()[-1]["reason"], "budget-exhausted")
