"""Names to addresses: every kind of answer, and what may never happen with it."""

import ipaddress
import socket
import struct
import time

import base
import dns
from base import PUBLIC, PUBLIC6
from dns import A, AAAA, Server, Zone
from proxy import wait_for


class Resolve(base.Case):
    env = {"ALLOW_HOSTS": "allowed.test *.wild.test wild.test", "ALLOW_CONNECT_PORTS": "7,21", "TIMEOUT_DNS": "1500ms",
           "TIMEOUT_CONNECT": "3s"}

    def verdict(self, zone, name="allowed.test"):
        """Status and reason of a tunnel to a host with this zone."""
        self.dns.zones[name] = zone
        conn = self.egressd.connect().send(f"CONNECT {name}:7 HTTP/1.1\r\n\r\n")
        status, phrase, _ = conn.head()
        return status, phrase.rpartition("(")[2].rstrip(")") if status != 200 else "", conn

    def assert_verdict(self, zone, status, reason=""):
        got = self.verdict(zone)
        self.assertEqual(got[:2], (status, reason))
        return got[2]

    def test_public_address(self):
        conn = self.assert_verdict(Zone([PUBLIC]), 200)
        conn.send(b"ping")
        self.assertEqual(conn.take(4), b"ping")
        self.assertEqual(self.egressd.decisions()[-1]["address"], PUBLIC)

    def test_ipv6_first_and_alone(self):
        self.assert_verdict(Zone((), [PUBLIC6]), 200)
        self.assertEqual(self.egressd.decisions()[-1]["address"], PUBLIC6)
        self.dns.zones["wild.test"] = Zone([PUBLIC], [PUBLIC6])
        self.assertEqual(self.egressd.tunnel("wild.test:7")[0], 200)
        self.assertEqual(self.egressd.decisions()[-1]["address"], PUBLIC6)

    def test_one_bad_address_refuses_the_whole_answer(self):
        bad4, bad6 = "10.0.0.1", "fd00::1"
        good = [PUBLIC, "11.22.33.2", "11.22.33.3"]
        for zone in (Zone([bad4]), Zone([bad4, *good]), Zone([*good, bad4]), Zone(good, [bad6]),
                     Zone(good, [PUBLIC6, bad6]), Zone([bad4], [PUBLIC6]), Zone(good, ["::ffff:127.0.0.1"]),
                     Zone(good, ["64:ff9b::a00:1"]), Zone(good, ["2002:7f00:1::"])):
            self.assert_verdict(zone, 403, "address-refused")
            self.assertIn("decision", self.egressd.decisions()[-1]["event"])

    def test_every_special_block_is_refused(self):
        v4 = ["0.0.0.0", "0.1.2.3", "100.64.0.1", "127.0.0.1", "127.0.0.11", "169.254.169.254", "172.17.0.1", "192.0.0.9",
              "192.0.2.1", "192.168.0.1", "198.18.0.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"]
        v6 = ["::", "::1", "::7f00:1", "64:ff9b:1::808:808", "100::1", "2001::1", "2001:db8::1", "3fff::1", "5f00::1",
              "fc00::1", "fe80::1", "fec0::1", "ff02::1"]
        for address in v4:
            self.assert_verdict(Zone([PUBLIC, address]), 403, "address-refused")
        for address in v6:
            self.assert_verdict(Zone([PUBLIC], [address]), 403, "address-refused")

    def test_the_33rd_and_the_200th_record_are_seen(self):
        for n in (33, 200):
            addresses = [f"11.22.33.{1 + i % 200}" for i in range(n - 1)] + ["10.0.0.1"]
            self.assert_verdict(Zone(addresses, tc=True), 403, "address-refused")

    def test_too_many_to_be_checked(self):
        self.assert_verdict(Zone([str(ipaddress.ip_address("11.22.33.0") + i) for i in range(256)] + ["11.22.34.0"],
                                 ttl=0, tc=True), 502, "dns-too-many")

    def test_truncated_is_asked_again_over_tcp(self):
        self.assert_verdict(Zone([PUBLIC, "11.22.33.2"], tc=True), 200)
        self.assertIn(("allowed.test", A, "tcp"), self.dns.questions())

    def test_failures(self):
        self.assert_verdict(Zone(dns.NXDOMAIN, dns.NXDOMAIN), 502, "dns-not-found")
        self.assert_verdict(Zone(), 502, "dns-no-address")
        self.assert_verdict(Zone(dns.SERVFAIL, dns.SERVFAIL), 502, "dns-failed")
        self.assert_verdict(Zone(dns.REFUSED, dns.REFUSED), 502, "dns-failed")

    def test_a_failure_of_one_family_fails_the_name(self):
        self.assert_verdict(Zone([PUBLIC], dns.SERVFAIL), 502, "dns-failed")
        self.assert_verdict(Zone([PUBLIC], drop=(AAAA,)), 504, "dns-timeout")
        self.assert_verdict(Zone((), [PUBLIC6], drop=(A,)), 504, "dns-timeout")

    def test_a_family_that_does_not_exist_is_no_failure(self):
        self.assert_verdict(Zone([PUBLIC], dns.NXDOMAIN), 200)

    def test_both_families_are_awaited(self):
        self.assert_verdict(Zone([PUBLIC], ["fd00::1"], delay={AAAA: 0.5}), 403, "address-refused")

    def test_alias_chain(self):
        self.assert_verdict(Zone([PUBLIC], cname=["a.cdn.test", "b.cdn.test"]), 200)
        self.assert_verdict(Zone(["10.0.0.1"], cname=["a.cdn.test"]), 403, "address-refused")

    def test_wrong_owner_is_no_answer(self):
        self.assert_verdict(Zone([PUBLIC], owner="evil.test"), 502, "dns-no-address")

    def test_alias_loop(self):
        self.assert_verdict(Zone([PUBLIC], cname=["b.test", "allowed.test"]), 502, "dns-malformed")

    def test_malformed(self):
        def cut(query, question, kind):
            return query[:2] + struct.pack(">HHHHH", 0x8180, 1, 3, 0, 0) + question + b"\xc0\x0c\x00"

        def short_address(query, question, kind):
            return dns.Server.message(query, question, 0, [dns.record("allowed.test", kind, b"\x0b\x16\x21", 60)])

        status, reason, _ = self.verdict(Zone(raw=cut))
        self.assertIn(status, (502, 504))
        self.assertEqual(self.verdict(Zone(raw=short_address))[:2], (502, "dns-malformed"))

    def test_rebinding_between_two_questions(self):
        zone = Zone(each=[[PUBLIC], ["127.0.0.1"], ["10.0.0.1"]])
        self.assert_verdict(zone, 200)
        self.assert_verdict(zone, 403, "address-refused")

    def test_cache_keeps_its_ttl_and_no_longer(self):
        zone = Zone([PUBLIC], ttl=1)
        self.assert_verdict(zone, 200)
        self.assert_verdict(zone, 200)
        self.assertEqual(len([q for q in self.dns.questions("allowed.test") if q[1] == A]), 1)

        def asked_again():
            self.verdict(zone)
            return len([q for q in self.dns.questions("allowed.test") if q[1] == A]) > 1

        wait_for(asked_again, "the TTL to pass")

    def test_answers_that_belong_to_no_question(self):
        """Another id, another name, another type, another sender: none of them is taken; the right one that follows is."""
        evil = socket.inet_aton("11.22.33.66")

        def forge(server, query, question, kind, peer):
            if kind != A:
                return
            good = Server.message(query, question, 0, [dns.record("allowed.test", A, evil, 60)])
            other_id = bytes([query[0] ^ 0x55, query[1] ^ 0xaa]) + good[2:]
            server.udp.sendto(other_id, peer)
            name = dns.encode_name("other.test") + struct.pack(">HH", A, 1)
            server.udp.sendto(Server.message(query, name, 0, [dns.record("other.test", A, evil, 60)]), peer)
            kind6 = dns.encode_name("allowed.test") + struct.pack(">HH", AAAA, 1)
            server.udp.sendto(Server.message(query, kind6, 0, [dns.record("allowed.test", A, evil, 60)]), peer)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.bind(("127.0.0.1", 0))
                try:
                    stranger.sendto(good, peer)
                except OSError:
                    pass  # a connected socket of the resolver refuses it

        self.assert_verdict(Zone([PUBLIC], before=forge), 200)
        self.assertEqual(self.egressd.decisions()[-1]["address"], PUBLIC)

    def test_a_message_cut_in_its_head(self):
        """The resolver may pass over it (c-ares 1.18) or end the question by it (1.34); it is no address either way."""
        def cut(server, query, question, kind, peer):
            server.udp.sendto(Server.message(query, question, 0, [])[:7], peer)

        self.dns.zones["allowed.test"] = Zone([PUBLIC], before=cut)
        status = self.egressd.tunnel("allowed.test:7")[0]
        decision = self.egressd.decisions()[-1]
        self.assertIn((status, decision.get("reason", ""), decision.get("address", "")),
                      [(200, "", PUBLIC), (502, "dns-malformed", "")])

    def test_questions_come_from_many_ports(self):
        self.dns.zones["*.wild.test"] = Zone([PUBLIC])
        self.dns.ports.clear()
        for i in range(100):
            self.egressd.tunnel(f"n{i}.wild.test:22")  # refused by its port: no question
        self.assertEqual(self.dns.ports, set())
        for i in range(20):
            self.assertEqual(self.egressd.tunnel(f"n{i}.wild.test:7")[0], 200)
        self.assertGreater(len(self.dns.ports), 10)

    def test_a_referral_is_no_answer(self):
        """A lame server: no error, no address, only where else one might ask."""
        def refer(query, question, kind):
            authority = dns.record("test", 2, dns.encode_name("ns.elsewhere.test"), 60)
            glue = dns.record("ns.elsewhere.test", A, socket.inet_aton(PUBLIC), 60)
            return query[:2] + struct.pack(">HHHHH", 0x8000, 1, 0, 1, 1) + question + authority + glue

        self.assert_verdict(Zone(raw=refer), 502, "dns-no-address")
        self.assertEqual({q[0] for q in self.dns.questions()}, {"allowed.test"})

    def test_additional_records_are_no_answer(self):
        def extra(query, question, kind):
            glue = dns.record("allowed.test", A, socket.inet_aton(PUBLIC), 60)
            return query[:2] + struct.pack(">HHHHH", 0x8180, 1, 0, 0, 1) + question + glue

        self.assert_verdict(Zone(raw=extra), 502, "dns-no-address")

    def test_the_hosts_file_is_not_read(self):
        with open("/etc/hosts", encoding="utf-8") as f:
            self.assertIn("localhost", f.read())
        e = self.start({"ALLOW_HOSTS": "localhost", "ALLOW_CONNECT_PORTS": "7"})
        self.assertEqual(e.tunnel("localhost:7")[0], 502)
        self.assertEqual(e.decisions()[-1]["reason"], "dns-not-found")
        self.assertIn("localhost", {q[0] for q in self.dns.questions()})

    def test_no_ttl_is_not_kept(self):
        for _ in range(3):
            self.assert_verdict(Zone([PUBLIC], ttl=0), 200)
        self.assertEqual(len([q for q in self.dns.questions() if q[1] == A]), 3)

    def test_a_huge_ttl_is_kept_no_longer_than_the_limit(self):
        self.egressd = self.start({**self.env, "TIMEOUT_CACHE": "300ms"})
        zone = Zone(each=[[PUBLIC], ["10.0.0.1"]], ttl=0x7fffffff)
        self.assert_verdict(zone, 200)
        wait_for(lambda: self.verdict(zone)[1] == "address-refused", "the new answer")

    def test_a_failure_is_not_kept(self):
        self.assert_verdict(Zone(dns.SERVFAIL, dns.SERVFAIL), 502, "dns-failed")
        self.assert_verdict(Zone(dns.NXDOMAIN, dns.NXDOMAIN), 502, "dns-not-found")
        self.assert_verdict(Zone([PUBLIC]), 200)

    def test_truncated_and_no_tcp(self):
        """The server says "ask by TCP" and hangs up there."""
        def cut(query, question, kind):
            return Server.message(query, question, 0, [], flags=0x8380)

        status, reason, _ = self.verdict(Zone(raw=cut))
        self.assertIn((status, reason), ((502, "dns-failed"), (502, "dns-malformed"), (504, "dns-timeout"),
                                         (502, "dns-no-address")))
        self.assert_verdict(Zone([PUBLIC]), 200)

    def test_a_denied_name_is_never_asked(self):
        status, _ = self.egressd.tunnel("evil.test:7")
        self.assertEqual(status, 403)
        self.assertEqual(self.egressd.tunnel("allowed.test:22")[0], 403)
        self.assertEqual(self.dns.questions(), [])

    def test_no_search_list_and_no_probe(self):
        self.assert_verdict(Zone(dns.NXDOMAIN, dns.NXDOMAIN), 502, "dns-not-found")
        self.assertEqual({q[0] for q in self.dns.questions()}, {"allowed.test"})

    def test_trailing_dot_and_case_are_one_name(self):
        for target in ("ALLOWED.test:7", "allowed.test.:7"):
            self.assertEqual(self.egressd.tunnel(target)[0], 200)
        self.assertEqual({q[0] for q in self.dns.questions()}, {"allowed.test"})

    def test_64_slow_names_do_not_delay_the_next(self):
        self.dns.zones["*.wild.test"] = Zone([PUBLIC], drop=(A, AAAA))
        slow = [self.egressd.connect().send(f"CONNECT n{i}.wild.test:7 HTTP/1.1\r\n\r\n") for i in range(64)]
        wait_for(lambda: len({q[0] for q in self.dns.questions()}) >= 64, "64 questions")
        before = time.monotonic()
        self.assertEqual(self.egressd.tunnel("allowed.test:7")[0], 200)
        self.assertLess(time.monotonic() - before, 1.4)  # the slow ones have 1.5 s each; in turn they would take 96
        self.assertEqual({conn.head()[0] for conn in slow}, {504})

    def test_equal_names_share_one_lookup(self):
        self.dns.zones["allowed.test"] = Zone([PUBLIC], delay=0.3)
        conns = [self.egressd.connect().send("CONNECT allowed.test:7 HTTP/1.1\r\n\r\n") for _ in range(20)]
        self.assertEqual({conn.head()[0] for conn in conns}, {200})
        self.assertEqual(len(self.dns.questions()), 2)

    def test_next_address_after_a_refusal(self):
        self.dns.zones["allowed.test"] = Zone(["11.22.55.1", "11.22.33.1"])
        self.assertEqual(self.egressd.tunnel("allowed.test:7")[0], 200)

    def test_next_address_beside_a_black_hole(self):
        self.dns.zones["allowed.test"] = Zone(["11.22.44.1", "11.22.33.1"])
        before = time.monotonic()
        self.assertEqual(self.egressd.tunnel("allowed.test:7")[0], 200)
        self.assertLess(time.monotonic() - before, 2.5)
        self.assertEqual(self.egressd.decisions()[-1]["address"], "11.22.33.1")

    def test_ways_not_to_connect(self):
        self.assert_verdict(Zone(["11.22.44.1"]), 504, "connect-timeout")
        self.assert_verdict(Zone(["11.22.55.1"]), 502, "connect-failed")
        self.dns.zones["wild.test"] = Zone([PUBLIC])
        e = self.start({**self.env, "ALLOW_CONNECT_PORTS": "1"})
        self.assertEqual(e.tunnel("wild.test:1")[0], 502)
        self.assertEqual(e.decisions()[-1]["reason"], "connect-refused")

    def test_recovers_when_the_resolver_comes_back(self):
        self.assert_verdict(Zone([PUBLIC], drop=(A, AAAA)), 504, "dns-timeout")
        self.assert_verdict(Zone([PUBLIC]), 200)


class Limits(base.Case):
    def test_names_at_once(self):
        e = self.start({"ALLOW_HOSTS": "*.wild.test *.other.test", "ALLOW_CONNECT_PORTS": "7", "TIMEOUT_DNS": "2s",
                        "LIMITS_LOOKUPS": "4"})
        self.dns.zones["*.wild.test"] = self.dns.zones["*.other.test"] = Zone([PUBLIC], drop=(A, AAAA))
        conns = [e.connect().send(f"CONNECT n{i}.{zone}.test:7 HTTP/1.1\r\n\r\n")
                 for i in range(3) for zone in ("wild", "other")]
        self.assertEqual(sorted(conn.head()[0] for conn in conns), [503, 503, 504, 504, 504, 504])
        self.assertIn("dns-busy", {d["reason"] for d in e.decisions()})

    def test_names_that_are_kept(self):
        e = self.start({"ALLOW_HOSTS": "*.wild.test", "ALLOW_CONNECT_PORTS": "7", "LIMITS_CACHED_NAMES": "2"})
        self.dns.zones["*.wild.test"] = Zone([PUBLIC], ttl=300)
        for i in (1, 2, 3, 3, 2, 1):
            self.assertEqual(e.tunnel(f"n{i}.wild.test:7")[0], 200)
        asked = [q[0] for q in self.dns.questions() if q[1] == A]
        self.assertEqual(asked, ["n1.wild.test", "n2.wild.test", "n3.wild.test", "n1.wild.test"])

    def test_lookups_of_one_wildcard(self):
        e = self.start({"ALLOW_HOSTS": "*.wild.test allowed.test", "ALLOW_CONNECT_PORTS": "7", "TIMEOUT_DNS": "2s",
                        "LIMITS_LOOKUPS_PER_RULE": "4"})
        self.dns.zones["*.wild.test"] = Zone([PUBLIC], drop=(A, AAAA))
        conns = [e.connect().send(f"CONNECT n{i}.wild.test:7 HTTP/1.1\r\n\r\n") for i in range(6)]
        self.assertEqual(sorted(conn.head()[0] for conn in conns), [503, 503, 504, 504, 504, 504])
        self.assertEqual(e.tunnel("allowed.test:7")[0], 200)

    def test_own_public_address_and_gateway(self):
        import world
        world.ip("addr", "add", "11.22.66.1/32", "dev", "lo")
        world.ip("route", "add", "default", "via", "11.22.66.9", "dev", "va", "metric", "500", "onlink")
        try:
            e = self.start({"ALLOW_HOSTS": "allowed.test", "ALLOW_CONNECT_PORTS": "7"})
            for address in ("11.22.66.1", "11.22.66.9"):
                self.dns.zones["allowed.test"] = Zone([address])
                self.assertEqual(e.tunnel("allowed.test:7")[0], 403)
                self.assertEqual(e.decisions()[-1]["reason"], "address-own")
        finally:
            world.ip("route", "del", "default", "via", "11.22.66.9", "dev", "va", "metric", "500")
            world.ip("addr", "del", "11.22.66.1/32", "dev", "lo")

    def test_refuse_list(self):
        e = self.start({"ALLOW_HOSTS": "allowed.test", "ALLOW_CONNECT_PORTS": "7"})
        for zone in (Zone(["168.63.129.16"]), Zone([PUBLIC], ["64:ff9b::168.63.129.16"])):
            self.dns.zones["allowed.test"] = zone
            self.assertEqual(e.tunnel("allowed.test:7")[0], 403)
            self.assertEqual(e.decisions()[-1]["reason"], "address-listed")
        e = self.start({"ALLOW_HOSTS": "allowed.test", "ALLOW_CONNECT_PORTS": "7", "REFUSE_CIDRS": "11.22.33.0/24"})
        self.dns.zones["allowed.test"] = Zone([PUBLIC])
        self.assertEqual(e.tunnel("allowed.test:7")[0], 403)
