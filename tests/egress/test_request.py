"""What is asked for: every spelling of a host, both request forms, and heads that do not parse."""

import os
import re

import base
from base import PUBLIC
from dns import Zone
from proxy import run

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases", "egress-hosts.tsv")


def spellings():
    with open(CASES, encoding="ascii") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            raw = re.sub(rb"\\(x[0-9a-f]{2}|\\)", lambda m: b"\\" if m[1] == b"\\" else bytes([int(m[1][1:], 16)]),
                         fields[0].encode())
            yield raw, fields[1]


class Spellings(base.Case):
    env = {"ALLOW_HOSTS": "allowed.test localhost:24001"}

    def test_connect(self):
        """Each row of egress-hosts.tsv as a CONNECT target: 400, 403, or by the list; no row reaches DNS."""
        for raw, reason in spellings():
            with self.subTest(target=raw):
                conn = self.egressd.connect().send(b"CONNECT " + raw + b" HTTP/1.1\r\nHost: x\r\n\r\n")
                status, phrase, _ = conn.head()
                got = phrase.rpartition("(")[2].rstrip(")")
                if reason == "ok":
                    self.assertIn(got, ("host-not-allowed", "dns-not-found"))
                elif reason == "ip-literal":
                    self.assertEqual((status, got), (403, reason))
                else:
                    self.assertEqual(status, 400, got)
                    if all(0x20 < c < 0x7f for c in raw):
                        self.assertEqual(got, reason)
                conn.close()
        self.assertEqual({q[0] for q in self.dns.questions()} - {"localhost"}, set())

    def test_absolute_url(self):
        for raw, reason in spellings():
            if not all(0x20 < c < 0x7f for c in raw) or b"://" in raw or b"/" in raw or b"?" in raw:
                continue
            with self.subTest(url=raw):
                conn = self.egressd.connect().send(b"GET http://" + raw + b"/x HTTP/1.1\r\nHost: x\r\n\r\n")
                status, phrase, _ = conn.head()
                got = phrase.rpartition("(")[2].rstrip(")")
                if reason == "ok":
                    self.assertIn(got, ("host-not-allowed", "port-not-allowed", "dns-not-found"))
                elif b"#" in raw:
                    self.assertEqual((status, got), (400, "url-syntax"))
                elif reason == "port-syntax" and b":" not in raw:
                    self.assertIn(status, (200, 502, 504))
                else:
                    self.assertEqual((status, got), (403 if reason == "ip-literal" else 400, reason))
                conn.close()

    def test_unicode_has_a_hint(self):
        conn = self.egressd.connect().send("CONNECT b\xc3\xbccher.test:443 HTTP/1.1\r\n\r\n")
        answer = conn.answer()
        self.assert_refused(answer, 400, "host-non-ascii")
        self.assertIn(b"punycode", answer[2])


class Forms(base.Case):
    env = {"ALLOW_HOSTS": "allowed.test", "ALLOW_CONNECT_PORTS": "7"}

    def refused(self, raw, status, reason):
        conn = self.egressd.connect().send(raw)
        answer = conn.answer(raw.startswith("HEAD"))
        self.assertEqual((answer[0], answer[1][":phrase"].rpartition("(")[2].rstrip(")")), (status, reason), raw)
        return conn

    def test_forms_that_are_not_for_a_proxy(self):
        for line, status, reason in (
            ("GET / HTTP/1.1", 400, "request-form"),
            ("GET * HTTP/1.1", 400, "request-form"),
            ("OPTIONS * HTTP/1.1", 400, "request-form"),
            ("GET allowed.test/ HTTP/1.1", 400, "request-form"),
            ("GET //allowed.test/ HTTP/1.1", 400, "request-form"),
            ("GET http:/allowed.test/ HTTP/1.1", 400, "request-form"),
            ("GET https://allowed.test/ HTTP/1.1", 400, "https-url"),
            ("GET HTTPS://allowed.test/ HTTP/1.1", 400, "https-url"),
            ("GET ftp://allowed.test/ HTTP/1.1", 400, "scheme"),
            ("GET ws://allowed.test/ HTTP/1.1", 400, "scheme"),
            ("GET file:///etc/passwd HTTP/1.1", 400, "scheme"),
            ("GET http:///etc/passwd HTTP/1.1", 400, "host-syntax"),
            ("GET http://allowed.test/#x HTTP/1.1", 400, "url-syntax"),
            ("GET http://u:p@allowed.test/ HTTP/1.1", 400, "userinfo"),
            ("GET http://allowed.test:80:80/ HTTP/1.1", 400, "host-syntax"),
            ("GET http://allowed.test\\.evil.test/ HTTP/1.1", 400, "host-syntax"),
            ("TRACE http://allowed.test/ HTTP/1.1", 405, "method"),
            ("TRACK http://allowed.test/ HTTP/1.1", 405, "method"),
            ("PRI * HTTP/2.0", 505, "http-version"),
            ("GET http://allowed.test/ HTTP/2.0", 505, "http-version"),
            ("GET  http://allowed.test/ HTTP/1.1", 400, "http-request-line"),
            ("CONNECT http://allowed.test:7/ HTTP/1.1", 400, "host-syntax"),
        ):
            with self.subTest(line=line):
                self.refused(f"{line}\r\nHost: allowed.test\r\n\r\n", status, reason)
        self.assertEqual(self.dns.questions(), [])

    def test_heads_that_could_be_read_twice(self):
        for fields, status, reason in (
            ("Content-Length: 3\r\nTransfer-Encoding: chunked", 400, "http-length-and-coding"),
            ("Content-Length: 3\r\nContent-Length: 4", 400, "http-content-length-twice"),
            ("Content-Length: 3\r\nContent-Length: 3", 400, "http-content-length-twice"),
            ("Content-Length: 3,3", 400, "http-content-length"),
            ("Content-Length: +3", 400, "http-content-length"),
            ("Content-Length: 0x3", 400, "http-content-length"),
            ("Content-Length: -1", 400, "http-content-length"),
            ("Content-Length: 99999999999999999999", 400, "http-content-length"),
            ("Transfer-Encoding: gzip, chunked", 501, "transfer-coding"),
            ("Transfer-Encoding: chunked, chunked", 501, "transfer-coding"),
            ("Transfer-Encoding: identity", 501, "transfer-coding"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 501, "transfer-coding"),
            ("X-A: b\r\n folded", 400, "http-obs-fold"),
            ("X-A : b", 400, "http-field-name"),
            ("X A: b", 400, "http-field-name"),
            ("X-A: b\nX-B: c", 400, None),
            ("X-A: b\rc", 400, None),
            ("X-A: b\x00c", 400, None),
            ("Host: two.test", 400, "http-host"),
            ("Connection: Host", 400, "http-connection"),
            ("Connection: Content-Length", 400, "http-connection"),
            ("Connection: Transfer-Encoding", 400, "http-connection"),
            ("Upgrade: a\r\nUpgrade: b\r\nConnection: upgrade", 400, "http-upgrade"),
            ("Expect: 200-ok", 417, "http-expect"),
            ("Trailer: X", 400, "http-trailer"),
        ):
            with self.subTest(fields=fields):
                conn = self.egressd.connect()
                conn.send(f"POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n{fields}\r\n\r\n0\r\n\r\n"
                          "GET http://allowed.test/smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
                answer = conn.answer()
                self.assertEqual(answer[0], status)
                if reason:
                    self.assertEqual(answer[1][":phrase"].rpartition("(")[2].rstrip(")"), reason)
                self.assertTrue(conn.closed(), "nothing behind a refused head is answered")
        self.assertEqual(self.dns.questions(), [])

    def test_coding_of_http_1_0(self):
        self.refused("POST http://allowed.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
                     "http-transfer-encoding-10")

    def test_limits_of_the_head(self):
        self.refused("GET http://allowed.test/ HTTP/1.1\r\nHost: a\r\nX: " + "x" * 17000 + "\r\n\r\n", 431, "http-head-size")
        many = "".join(f"X-{i}: y\r\n" for i in range(200))
        self.refused(f"GET http://allowed.test/ HTTP/1.1\r\nHost: a\r\n{many}\r\n", 431, "http-field-count")

    def test_head_in_single_bytes(self):
        conn = self.egressd.connect()
        for byte in b"CONNECT allowed.test:7 HTTP/1.1\r\nHost: allowed.test:7\r\n\r\n":
            conn.send(bytes([byte]))
        self.assertEqual(conn.head()[0], 200)

    def test_slow_head(self):
        e = self.start({**self.env, "TIMEOUT_HEAD": "300ms"})
        conn = e.connect().send("GET http://allowed.test/ HTTP/1.1\r\n")
        self.assert_refused(conn.answer(), 408, "head-timeout")
        silent = e.connect()
        self.assertTrue(silent.closed())

    def test_connect_with_a_body(self):
        self.refused("CONNECT allowed.test:7 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 400, "connect-body")
        self.refused("CONNECT allowed.test:7 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "connect-body")
        self.assertEqual(self.egressd.connect().send(
            "CONNECT allowed.test:7 HTTP/1.1\r\nContent-Length: 0\r\n\r\n").head()[0], 200)

    def test_clients_of_connect(self):
        """pip: HTTP/1.0 without Host; java: Host without the port; curl: Proxy-Connection."""
        for head in ("CONNECT allowed.test:7 HTTP/1.0\r\n\r\n",
                     "CONNECT allowed.test:7 HTTP/1.1\r\nHost: allowed.test\r\nProxy-Connection: keep-alive\r\n\r\n",
                     "CONNECT allowed.test:7 HTTP/1.1\r\nHost: other.test\r\nUser-Agent: x\r\n\r\n"):
            self.assertEqual(self.egressd.connect().send(head).head()[0], 200)

    def test_refused_connect_closes_and_reads_nothing(self):
        conn = self.egressd.connect().send("CONNECT evil.test:7 HTTP/1.1\r\n\r\n"
                                           "GET http://allowed.test/smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        answer = conn.answer()
        self.assert_refused(answer, 403, "host-not-allowed")
        self.assertEqual(answer[1]["connection"], "close")
        self.assertTrue(conn.closed())
        self.assertEqual(len(self.egressd.decisions()), 1)

    def test_ports(self):
        self.refused("CONNECT allowed.test:22 HTTP/1.1\r\n\r\n", 403, "port-not-allowed")
        self.refused("CONNECT allowed.test:443 HTTP/1.1\r\n\r\n", 403, "port-not-allowed")
        self.refused("GET http://allowed.test:8080/ HTTP/1.1\r\nHost: a\r\n\r\n", 403, "port-not-allowed")
        e = self.start({"ALLOW_HOSTS": "allowed.test:8080"})
        self.assertEqual(e.ask("http://allowed.test:8080/")[0], 200)
        self.assertEqual(e.tunnel("allowed.test:8080")[0], 200)
        self.assertEqual(e.ask("http://allowed.test/")[0], 403)

    def test_empty_allowlist_allows_nothing(self):
        e = self.start({"ALLOW_HOSTS": ""})
        self.assertEqual(e.tunnel("allowed.test:443")[0], 403)
        self.assertIn("nothing is allowed", e.text())

    def test_answers_to_a_refusal(self):
        status, fields, body, _ = self.egressd.ask("http://evil.test/secret?token=1")
        self.assertEqual(status, 403)
        self.assertEqual(fields["proxy-status"], 'egressd; error=http_request_denied; details="host-not-allowed"')
        self.assertIn(b"evil.test", body)
        self.assertNotIn("connection", fields)
        entry = self.egressd.decisions()[-1]
        self.assertEqual((entry["decision"], entry["reason"], entry["status"]), ("deny", "host-not-allowed", 403))
        self.assertEqual(entry["request"], fields["x-request-id"])
        self.assertNotIn("token", self.egressd.text())
        status, fields, body, conn = self.egressd.ask("http://evil.test/", "HEAD")
        self.assertEqual((status, body, conn.buffer), (403, b"", b""))


class Check(base.Case):
    def check(self, *arguments, **env):
        import json
        done = run("check", *arguments, env={"RESOLVER": self.dns.address, "ALLOW_HOSTS": "allowed.test *.wild.test:8443",
                                             **env})
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def test_hosts(self):
        self.dns.zones["bad.wild.test"] = Zone([PUBLIC, "10.0.0.1"])
        code, lines, _ = self.check("allowed.test")
        self.assertEqual((code, lines[0]["decision"], lines[0]["rule"], lines[0]["port"]), (0, "allow", "allowed.test", 443))
        self.assertEqual([(a["address"], a["class"], a["verdict"]) for a in lines[0]["addresses"]],
                         [(PUBLIC, "global", "public")])
        code, lines, _ = self.check("allowed.test", "evil.test", "bad.wild.test:8443")
        self.assertEqual((code, [(x["decision"], x["reason"]) for x in lines]),
                         (1, [("allow", "ok"), ("deny", "host-not-allowed"), ("deny", "address-refused")]))
        self.assertEqual([a["verdict"] for a in lines[2]["addresses"]], ["public", "refused"])

    def test_syntax_is_a_deny(self):
        for text in ("a..b", "host:0", "u@allowed.test", "[allowed.test]", "b\u00fccher.test", "allowed.test:443/"):
            code, lines, _ = self.check("--", text)
            self.assertEqual((code, lines[0]["decision"], lines[0]["reason"]), (1, "deny", "syntax"), text)
        code, lines, _ = self.check("127.1")
        self.assertEqual((code, lines[0]["reason"]), (1, "ip-literal"))

    def test_addresses(self):
        code, lines, _ = self.check("--address", "8.8.8.8", "2606:4700::1111")
        self.assertEqual((code, [x["verdict"] for x in lines]), (0, ["public", "public"]))
        code, lines, _ = self.check("--address", "8.8.8.8", "10.0.0.1", "64:ff9b::a9fe:a9fe")
        self.assertEqual((code, [(x["class"], x["verdict"]) for x in lines]),
                         (1, [("global", "public"), ("private-use", "refused"), ("link-local", "refused")]))
        code, lines, _ = self.check("--address", "10.0.0.1", "127.1")
        self.assertEqual((code, len(lines)), (2, 2))

    def test_usage_and_configuration(self):
        self.assertEqual(self.check()[0], 2)
        self.assertEqual(self.check("--nonsense", "x")[0], 2)
        self.assertEqual(self.check("allowed.test", ALLOW_HOSTS="*")[0], 2)
        self.assertEqual(self.check("allowed.test", RESOLVER="nonsense")[0], 2)
        self.assertEqual(self.check("--config", "/nonexistent", "allowed.test")[0], 2)
