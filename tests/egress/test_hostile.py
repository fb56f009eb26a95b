"""What somebody inside the sandbox would try who knows how this proxy works."""

import json
import os
import socket
import threading
import time

import base
import world
from base import PUBLIC
from dns import Zone
from proxy import free_port, wait_for
from test_tunnel import hello, record


def tcp_row(port, remote):
    """The kernel's line of an established connection between two ports of this namespace."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in f:
            words = line.split()
            if words[1].endswith(f":{port:04X}") and words[2].endswith(f":{remote:04X}") and words[3] == "01":
                return words
    return None


class Hostile(base.Case):
    env = {"ALLOW_HOSTS": "allowed.test", "ALLOW_CONNECT_PORTS": "7,80,443"}

    def test_the_200_has_no_fields(self):
        conn = self.egressd.connect().send("CONNECT allowed.test:7 HTTP/1.1\r\nHost: allowed.test:7\r\n\r\n")
        conn.send("x")
        self.assertEqual(conn.take(40), b"HTTP/1.1 200 Connection established\r\n\r\nx")

    def test_a_tunnel_is_kept_alive(self):
        status, conn = self.egressd.tunnel("allowed.test:7")
        row = wait_for(lambda: tcp_row(self.egressd.port, conn.sock.getsockname()[1]), "the tunnel")
        self.assertEqual(row[5].split(":")[0], "02", "the kernel's keepalive timer runs")
        self.assertEqual(status, 200)

    def test_urgent_bytes(self):
        status, conn = self.egressd.tunnel("allowed.test:7")
        conn.send(b"before")
        conn.sock.send(b"!", socket.MSG_OOB)
        conn.send(b"after").half_close()
        self.assertEqual(conn.rest().replace(b"!", b""), b"beforeafter")

    def test_tls_on_80_and_none_on_443(self):
        """443 carries TLS for its host alone; 80 is not looked into, and is only a port of the list."""
        status, conn = self.egressd.tunnel("allowed.test:80")
        conn.send("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        self.assertEqual(conn.head()[0], 200)
        status, conn = self.egressd.tunnel("allowed.test:443")
        conn.send("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        self.assertTrue(conn.closed())
        self.assertEqual(self.egressd.last("close")["reason"], "sni-not-tls")

    def test_a_second_hello_behind_the_first(self):
        """What is judged is what the host sees first; nothing of it reaches the host when it is cut."""
        status, conn = self.egressd.tunnel("allowed.test:443")
        conn.send(record(hello("evil.test")) + record(hello("allowed.test")))
        self.assertTrue(conn.closed())
        self.assertEqual(self.egressd.last("close")["bytesIn"], 0)

    def test_a_second_connect_is_only_bytes(self):
        """Behind a CONNECT that was let in, another one is what the host gets to read, and judged by nobody else."""
        second = b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n"
        conn = self.egressd.connect().send(b"CONNECT allowed.test:7 HTTP/1.1\r\n\r\n" + second)
        self.assertEqual(conn.head()[0], 200)
        self.assertEqual(conn.take(len(second)), second)
        self.assertEqual([d["object"] for d in self.egressd.decisions()], ["allowed.test:7"])

    def test_a_tunnel_holds_two_descriptors_whatever_came_before(self):
        """The connection that served plain requests is not kept beside the tunnel that follows them."""
        idle = len(os.listdir(f"/proc/{self.egressd.process.pid}/fd"))
        self.dns.zones["allowed.test"] = Zone([PUBLIC], ttl=60)
        conn = self.egressd.connect()
        for _ in range(2):
            conn.send("GET http://allowed.test/ HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(conn.answer()[0], 200)
        conn.send("CONNECT allowed.test:7 HTTP/1.1\r\n\r\n")
        self.assertEqual(conn.head()[0], 200)
        conn.send(b"x")
        self.assertEqual(conn.take(1), b"x")
        wait_for(lambda: len(os.listdir(f"/proc/{self.egressd.process.pid}/fd")) <= idle + 2, "two descriptors")

    def test_answers_that_nobody_reads(self):
        """Refusals without end, and a client that takes none: its next request waits, memory does not grow."""
        with world.small_buffers():
            e = self.start(self.env)
            conn = e.connect()
            before = int(e.memory()["VmRSS"].split()[0])
            sent = 0
            conn.sock.settimeout(1)
            try:
                while sent < 50000:
                    conn.send("GET http://evil.test/ HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
                    sent += 100
            except TimeoutError:
                pass
            self.assertLess(sent, 50000, "the client is stopped by back-pressure")
            self.assertLess(int(e.memory()["VmRSS"].split()[0]) - before, 4096)
            self.assertEqual(e.tunnel("allowed.test:7")[0], 200)
            self.assertLess(len(e.decisions()), sent)

    def test_a_200_that_cannot_be_written_yet(self):
        """A client that reads no answer until there is no room for the 200 either, speaks on, and only then reads."""
        with world.small_buffers():
            e = self.start({**self.env, "CAPYBARA_EGRESS_TEST_HOSTS": f"allowed.test={PUBLIC}"})
            for port, early, echoed in ((7, b"x", b"x"), (443, record(hello("allowed.test")), b"\x15")):
                reached = 0
                for pad in range(0, 60, 6):
                    name = f"p{port}{'x' * pad}.test"
                    refused = f"GET http://{name}/ HTTP/1.1\r\nHost: a\r\n\r\n"
                    e.connect(receive=2048).send(refused * 40)
                    e.decisions()
                    fit = e.text().count(f'"object":"{name}:80"') - 1  # the last one waits to be written
                    self.assertIn(fit, range(1, 39))
                    before = e.text().count('"decision":"allow"')
                    conn = e.connect(receive=2048).send(refused * fit + f"CONNECT allowed.test:{port} HTTP/1.1\r\n\r\n")
                    for _ in range(100):  # not to be had where the kernel took one answer less than before
                        if e.text().count('"decision":"allow"') > before:
                            reached += 1
                            break
                        time.sleep(0.01)
                    conn.send(early)
                    e.decisions()
                    self.assertEqual({conn.answer()[0] for _ in range(fit)}, {403})
                    self.assertEqual(conn.head()[0], 200)
                    self.assertEqual(conn.take(1), echoed)
                self.assertGreater(reached, 0)

    def test_authority_and_host_field(self):
        """The destination is the target's; no Host field changes it, and none is passed on."""
        for field in ("Host: evil.test", "Host: 127.0.0.1:80", "Host: evil.test:443", "X-Forwarded-Host: evil.test"):
            conn = self.egressd.connect().send(f"GET http://allowed.test/x HTTP/1.1\r\n{field}\r\n\r\n")
            status, _, body = conn.answer()
            self.assertEqual(status, 200)
            self.assertIn(b"\r\nHost: allowed.test\r\n", body)
            self.assertEqual(body.count(b"\r\nHost:"), 1)

    def test_a_request_line_that_names_two_hosts(self):
        for target in ("http://allowed.test:80@evil.test/", "http://allowed.test\\@evil.test/", "http://evil.test#@allowed.test/",
                       "http://allowed.test%2eevil.test/", "http://allowed.test%00.evil.test/", "http:\\\\allowed.test/",
                       "http://allowed.test:80:443/", "http:///allowed.test/", "http:allowed.test/", "//allowed.test/",
                       "http://allowed.test?@evil.test:80/../", "http://[allowed.test]/"):
            with self.subTest(target=target):
                conn = self.egressd.connect().send(f"GET {target} HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
                status, _, body = conn.answer()
                if status == 200:  # the one where the rest is a query of the right host
                    self.assertEqual(body.split(b"\r\n")[:2], [b"GET /?@evil.test:80/../ HTTP/1.1", b"Host: allowed.test"])
                else:
                    self.assertEqual(status, 400)
        self.assertEqual({q[0] for q in self.dns.questions()}, {"allowed.test"})

    def test_a_long_target_is_cut_in_the_log(self):
        self.egressd.connect().send("GET http://evil.test/" + "%0a\"{}" * 2000 + " HTTP/1.1\r\nHost: a\r\n\r\n").answer()
        self.egressd.connect().send("CONNECT " + "a" * 10000 + ":443 HTTP/1.1\r\n\r\n").answer()
        for line in self.egressd.text().splitlines():
            self.assertLess(len(line), 1200)
            if line.startswith("{"):
                json.loads(line)
        self.assertEqual(len(self.egressd.decisions()), 2)

    def test_names_that_lead_back(self):
        """The proxy itself, its admin listener, another sandbox's proxy, the resolver, the engine: by any name on the list."""
        own = self.egressd.port
        for address in ("127.0.0.1", "10.99.0.1", "172.17.0.1", "172.18.0.3", "169.254.169.254", "0.0.0.0"):
            self.dns.zones["back.test"] = Zone([address])
            e = self.start({"ALLOW_HOSTS": f"back.test:{own} back.test:2375 back.test:53"})
            for port in (own, 2375, 53):
                self.assertEqual(e.tunnel(f"back.test:{port}")[0], 403)
            self.assertEqual({d["reason"] for d in e.decisions()}, {"address-refused"})

    def test_a_pin_lends_its_exemption_to_nobody(self):
        """A test host's address is reached by that name alone, at allowed ports."""
        self.dns.zones["allowed.test"] = Zone(["10.99.0.2"])
        self.dns.zones["sub.pin.test"] = Zone(["10.99.0.2"])
        e = self.start({"ALLOW_HOSTS": "pin.test allowed.test *.pin.test", "ALLOW_CONNECT_PORTS": "7",
                        "CAPYBARA_EGRESS_TEST_HOSTS": "pin.test=10.99.0.2 off-list.test=10.99.0.2"})
        self.assertEqual(e.tunnel("pin.test:7")[0], 200)
        self.assertEqual(e.tunnel("PIN.test.:7")[0], 200)
        for target in ("pin.test:21", "allowed.test:7", "sub.pin.test:7", "off-list.test:7", "10.99.0.2:7"):
            self.assertEqual(e.tunnel(target)[0], 403, target)

    def test_thousands_of_connects(self):
        """Refused, allowed, cut in every state: what is open at the end is what was open at the start."""
        idle = len(os.listdir(f"/proc/{self.egressd.process.pid}/fd"))
        self.dns.zones["allowed.test"] = Zone([PUBLIC], ttl=60)

        def storm(seed):
            for i in range(250):
                with socket.create_connection(("127.0.0.1", self.egressd.port), timeout=20) as s:
                    kind = (seed + i) % 6
                    s.sendall((b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n", b"CONNECT allowed.test:7 HTTP/1.1\r\n\r\nx",
                               b"CONNECT allowed.test:7 HTT", b"GET http://allowed.test/ HTTP/1.1\r\nHost: a\r\n\r\n",
                               b"\x16\x03\x01", b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n\x16\x03")[kind])
                    if kind % 2:
                        s.recv(10)

        threads = [threading.Thread(target=storm, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        wait_for(lambda: len(os.listdir(f"/proc/{self.egressd.process.pid}/fd")) <= idle, "everything to be closed")
        self.assertEqual(self.egressd.tunnel("allowed.test:7")[0], 200)

    def test_descriptors_end_before_the_proxy_does(self):
        e = self.start(self.env, wrapper=["prlimit", "--nofile=128:128"])
        self.assertIn("at most 16 clients", e.text())
        held = [e.connect().send("CONNECT allowed.test:7 HTTP/1.1\r\n\r\n") for _ in range(15)]
        self.assertEqual({c.head()[0] for c in held}, {200})

        def takes_the_last_place():  # the connection that saw the proxy start may still hold it
            conn = e.connect().send("CONNECT allowed.test:7 HTTP/1.1\r\n\r\n")
            if conn.head()[0] != 200:
                conn.close()
                return False
            held.append(conn)
            return True

        wait_for(takes_the_last_place, "the last place")
        more = [e.connect() for _ in range(200)]
        for conn in more:
            try:
                conn.rest()
            except ConnectionResetError:
                pass
        held[0].send(b"still")
        self.assertEqual(held[0].take(5), b"still")
        for conn in held:
            conn.close()
        wait_for(lambda: self.opens(e), "room for another")

    @staticmethod
    def opens(e):
        try:
            return e.tunnel("allowed.test:7")[0] == 200
        except (EOFError, ConnectionError):
            return False

    def test_nothing_listens_before_a_target_is_pinned(self):
        self.dns.zones["db.test"] = Zone([PUBLIC], delay=1)
        port = free_port()
        e = self.start({"TCP_TARGETS": f"127.0.0.1:{port}=db.test:7", "LISTEN": ""}, wait=False)
        wait_for(lambda: self.dns.questions("db.test"), "the question")
        self.assertRaises(ConnectionRefusedError, lambda: socket.create_connection(("127.0.0.1", port), timeout=5))

        def relays():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
                    s.sendall(b"x")
                    return s.recv(1) == b"x"
            except ConnectionRefusedError:
                return False

        wait_for(relays, "the relay")
        self.assertIsNone(e.process.poll())

    def test_upgrade_opens_no_way_around_the_list(self):
        """A tunnel by Upgrade stands to the host of the URL alone, after its 101."""
        conn = self.egressd.connect().send("GET http://evil.test/ws HTTP/1.1\r\nHost: allowed.test\r\nConnection: Upgrade\r\n"
                                           "Upgrade: websocket\r\n\r\n")
        self.assert_refused(conn.answer(), 403, "host-not-allowed")
        conn = self.egressd.connect().send("GET http://allowed.test/plain HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"
                                           "Upgrade: websocket\r\n\r\nCONNECT evil.test:443 HTTP/1.1\r\n\r\n")
        self.assertEqual(conn.answer()[0], 200)
        self.assert_refused(conn.answer(), 403, "host-not-allowed")
