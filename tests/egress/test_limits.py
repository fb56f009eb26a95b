"""What one sandbox may take: buffers, names, descriptors; and how a reload changes it."""

import os
import select
import signal
import socket
import time

import base
import proxy
from base import PUBLIC
from dns import A, AAAA, Server, Zone, record
from proxy import free_port, wait_for
from test_operate import get


def metric(port, name):
    for line in get(port, "/metrics")[1].splitlines():
        if line.startswith(f"egressd_{name} "):
            return int(line.rsplit(" ", 1)[1])
    raise KeyError(name)


class Buffers(base.Case):
    POOL = 65536

    def setUp(self):
        super().setUp()
        self.admin = free_port()
        self.e = self.start({"ALLOW_HOSTS": "allowed.test hole.test", "ALLOW_CONNECT_PORTS": "7,443",
                             "LIMITS_BUFFER_BYTES": str(self.POOL), "ADMIN": f"127.0.0.1:{self.admin}",
                             "TIMEOUT_CONNECT": "60s", "TIMEOUT_HEAD": "60s", "TIMEOUT_HELLO": "60s", "TIMEOUT_DRAIN": "0"})
        self.dns.zones["hole.test"] = Zone(["11.22.44.1"])

    def used(self):
        return metric(self.admin, "buffered_bytes")

    def fill(self, form="GET http://hole.test/ HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n"):
        """Requests to a host that never answers hold their heads, ever smaller ones until none fits."""
        conns = []
        for size in (12000, 1500, 10):
            while True:
                before = self.used()
                conn = self.e.connect().send(form % ("x" * size))
                wait_for(lambda: select.select([conn.sock], [], [], 0)[0] or self.used() > before, "the head to be read")
                if select.select([conn.sock], [], [], 0)[0]:
                    self.assert_refused(conn.answer(), 503, "buffers-full")
                    break
                conns.append(conn)
        self.assertGreater(len(conns), 2)
        return conns

    def test_a_plain_request_is_refused_when_they_are_used_up(self):
        held = self.fill()
        answer = self.e.ask("http://allowed.test/")
        self.assert_refused(answer, 503, "buffers-full")
        self.assertEqual((answer[1]["retry-after"], answer[1]["connection"]), ("1", "close"))
        self.assertEqual(self.e.tunnel("allowed.test:7")[0], 200)
        for conn in held:
            conn.reset()
        wait_for(lambda: self.used() == 0, "the memory to come back")
        self.assertEqual(self.e.ask("http://allowed.test/")[0], 200)

    def test_half_heads_are_refused_when_they_are_used_up(self):
        held = self.fill()
        conn = self.e.connect().send("GET http://allowed.test/ HTTP/1.1\r\nX: " + "x" * 12000)
        self.assert_refused(conn.answer(), 503, "buffers-full")
        conn = self.e.connect().send("GET http://allowed.test/ HTTP/1.1\r\n")  # short: it may stay
        self.assertLess(self.used(), self.POOL + 40000)
        self.assertEqual(self.e.tunnel("allowed.test:7")[0], 200)
        held[0].close()

    def test_early_bytes_of_tunnels_wait_outside(self):
        """Tunnels that do not stand yet: what the client sends already stays in its own kernel buffer."""
        conns = [self.e.connect().send("CONNECT hole.test:443 HTTP/1.1\r\n\r\n" + "x" * 70000) for _ in range(20)]
        wait_for(lambda: self.used() >= self.POOL, "the early bytes to be read")
        self.assertLess(self.used(), self.POOL + 20 * 4096 + 131072)
        self.assertEqual(self.e.tunnel("allowed.test:7")[0], 200)
        self.assertTrue(conns)

    def test_long_hellos_are_cut_when_they_are_used_up(self):
        held = self.fill()
        status, conn = self.e.tunnel("allowed.test:443")
        self.assertEqual(status, 200)
        conn.send(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + b"\0" * 5000)
        self.assertTrue(conn.closed())
        self.assertEqual(self.e.last("close")["reason"], "buffers-full")
        self.assertTrue(held)

    def test_bodies_under_way_still_arrive(self):
        """An upload and a download that began before go on, in small pieces."""
        down = self.e.connect().send("GET http://allowed.test/big/3000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        up = self.e.connect().send("POST http://allowed.test/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        self.assertEqual(down.head()[0], 200)
        self.e.last("decision", 2)
        held = self.fill()
        up.send(b"u" * 100000)
        self.assertEqual(len(down.take(3000000)), 3000000)
        status, _, body = up.answer()
        self.assertEqual((status, body[-100000:]), (200, b"u" * 100000))
        self.assertTrue(held)


class Names(base.Case):
    env = {"ALLOW_HOSTS": "*.wild.test allowed.test", "ALLOW_CONNECT_PORTS": "7", "LIMITS_WILDCARD_LOOKUPS": "5"}

    def test_names_a_minute_under_a_wildcard(self):
        self.dns.zones["*.wild.test"] = Zone([PUBLIC])
        got = [self.egressd.tunnel(f"data{i}.wild.test:7")[0] for i in range(8)]
        self.assertEqual(got, [200] * 5 + [503] * 3)
        self.assertEqual(self.egressd.decisions()[-1]["reason"], "dns-pace")
        self.assertEqual(len({q[0] for q in self.dns.questions()}), 5)  # the others were never asked for
        for _ in range(8):  # an exact entry says nothing by its name
            self.assertEqual(self.egressd.tunnel("allowed.test:7")[0], 200)

    def test_a_name_that_is_known_costs_nothing(self):
        self.dns.zones["*.wild.test"] = Zone([PUBLIC], ttl=60)
        got = [self.egressd.tunnel("one.wild.test:7")[0] for _ in range(20)]
        self.assertEqual(got, [200] * 20)

    def test_a_name_that_is_being_asked_for_costs_nothing(self):
        self.dns.zones["*.wild.test"] = Zone([PUBLIC], delay=0.5)
        conns = [self.egressd.connect().send("CONNECT one.wild.test:7 HTTP/1.1\r\n\r\n") for _ in range(20)]
        self.assertEqual({c.head()[0] for c in conns}, {200})


class Reload(base.Case):
    def config(self, **more):
        return {"allowHosts": ["allowed.test", "other.test"], "allowConnectPorts": [7], "timeouts": {"reloadGrace": "1s"},
                "resolver": self.dns.address, **more}

    def begin(self, **more):
        """The resolver stands in the file: a variable would go before it."""
        e = proxy.Egressd(base.directory, base.QUIET, config=self.config(**more))
        self.started.append(e)
        return e

    def reload(self, e, **more):
        count = e.text().count("taken over") + e.text().count("nothing changes")
        e.write_config(self.config(**more))
        e.signal(signal.SIGHUP)
        wait_for(lambda: e.text().count("taken over") + e.text().count("nothing changes") > count, "the reload")

    def test_connections(self):
        e = self.begin(limits={"connections": 4})
        held = [e.tunnel("allowed.test:7") for _ in range(4)]
        self.assertEqual([s for s, _ in held], [200] * 4)
        self.assert_refused(e.connect().answer(), 503, "capacity")
        self.reload(e, limits={"connections": 6})
        self.assertEqual([e.tunnel("allowed.test:7")[0] for _ in range(2)], [200] * 2)
        self.assert_refused(e.connect().answer(), 503, "capacity")
        self.reload(e, limits={"connections": 1})  # what is open stays
        held[0][1].send(b"still")
        self.assertEqual(held[0][1].take(5), b"still")
        self.assert_refused(e.connect().answer(), 503, "capacity")

    def test_resolvers(self):
        second = Server()
        second.zones = {"allowed.test": Zone(["11.22.33.77"])}
        self.dns.zones["allowed.test"] = Zone([PUBLIC], ttl=60)
        self.dns.zones["other.test"] = Zone([PUBLIC], drop=(A, AAAA))
        second.zones["other.test"] = Zone(["11.22.33.78"])
        e = self.begin(timeouts={"dns": "60s"})
        self.assertEqual(e.tunnel("allowed.test:7")[0], 200)
        waiting = e.connect().send("CONNECT other.test:7 HTTP/1.1\r\n\r\n")
        wait_for(lambda: self.dns.questions("other.test"), "the question")
        self.reload(e, resolver=second.address, timeouts={"dns": "30s"})
        self.assertEqual(waiting.head()[0], 200)  # asked again, of the new one
        self.assertEqual(e.tunnel("allowed.test:7")[0], 200)  # not from what the old one said
        self.assertEqual([d["address"] for d in e.decisions()], [PUBLIC, "11.22.33.78", "11.22.33.77"])

    def test_a_bad_resolver_changes_nothing(self):
        e = self.begin()
        self.reload(e, resolver="nonsense", allowHosts=[])
        self.assertIn("nothing changes", e.text())
        self.assertEqual(e.tunnel("allowed.test:7")[0], 200)

    def test_a_time_that_became_longer_holds(self):
        """The questions go on at the pace of the start."""
        asked = {A: 0, AAAA: 0}

        def deaf(query, question, kind):
            asked[kind] += 1
            if asked[kind] <= 8:
                return None
            records = [record("other.test", A, socket.inet_aton(PUBLIC), 0)] if kind == A else []
            return Server.message(query, question, 0, records)

        self.dns.zones["other.test"] = Zone(raw=deaf)
        e = self.begin(timeouts={"dns": "300ms"})
        self.assertEqual(e.tunnel("other.test:7")[0], 504)
        self.reload(e, timeouts={"dns": "20s"})
        self.assertEqual(e.tunnel("other.test:7")[0], 200)

    def test_addresses_that_came_into_the_refused_blocks_are_cut(self):
        self.dns.zones["other.test"] = Zone(["11.22.33.2"])
        e = self.begin()
        status, cut = e.tunnel("other.test:7")
        status, kept = e.tunnel("allowed.test:7")
        self.reload(e, refuseCidrs=["11.22.33.2/32"])
        self.assertTrue(cut.closed())
        self.assertEqual(e.last("close")["reason"], "reload")
        kept.send(b"x")
        self.assertEqual(kept.take(1), b"x")

    def test_a_kept_connection_is_judged_by_the_new_list_of_addresses(self):
        """A download runs on when its address comes into refuseCidrs; the next request does not use its connection."""
        e = self.begin(timeouts={"reloadGrace": "60s"})
        conn = e.connect(receive=65536).send("GET http://allowed.test/big/30000000 HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(conn.head()[0], 200)
        self.reload(e, refuseCidrs=[f"{PUBLIC}/32"], timeouts={"reloadGrace": "60s"})
        self.assertEqual(len(conn.take(30000000)), 30000000)
        conn.send("GET http://allowed.test/ HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assert_refused(conn.answer(), 403, "address-listed")

    def test_what_is_cut_is_counted(self):
        admin = free_port()
        e = self.begin(admin=f"127.0.0.1:{admin}")
        status, conn = e.tunnel("allowed.test:7")
        conn.send(b"12345")
        self.assertEqual(conn.take(5), b"12345")
        self.reload(e, allowHosts=["third.test"], admin=f"127.0.0.1:{admin}")
        self.assertTrue(conn.closed())
        self.assertEqual((metric(admin, "bytes_up_total"), metric(admin, "bytes_down_total"), metric(admin, "tunnels")), (5, 5, 0))

    def test_what_waits_for_a_restart_is_said(self):
        e = self.begin()
        self.reload(e, admin="127.0.0.1:1", audit={"path": "off"}, tcpTargets=["1=allowed.test:7"])
        for key in ("listen and tcpTargets", "admin", "audit.path"):
            self.assertIn(f"SIGHUP: {key}: the change waits for a restart", e.text())
        self.assertNotIn("confine: the change", e.text())

    def test_a_request_that_waits_when_the_list_is_replaced(self):
        """Its entry is gone while its name is being resolved."""
        self.dns.zones["slow.wild.test"] = Zone([PUBLIC], delay=1)
        e = self.begin(allowHosts=["*.wild.test"])
        conn = e.connect().send("CONNECT slow.wild.test:7 HTTP/1.1\r\n\r\n")
        wait_for(lambda: self.dns.questions("slow.wild.test"), "the question")
        self.reload(e, allowHosts=["*.wild.test", "*.other.test"])
        self.assertEqual(conn.head()[0], 200)
        conn.send(b"x")
        self.assertEqual(conn.take(1), b"x")


class Descriptors(base.Case):
    def test_addresses_that_never_answer_take_few_descriptors(self):
        """A host with sixteen black holes: attempts beside each other are bounded, and another host is still reached."""
        self.dns.zones["holes.test"] = Zone([f"11.22.44.{i}" for i in range(1, 17)])
        e = self.start({"ALLOW_HOSTS": "holes.test allowed.test", "ALLOW_CONNECT_PORTS": "7", "TIMEOUT_STAGGER": "1ms",
                        "TIMEOUT_CONNECT": "60s", "TIMEOUT_DRAIN": "0"})
        idle = len(os.listdir(f"/proc/{e.process.pid}/fd"))
        conns = [e.connect().send("CONNECT holes.test:7 HTTP/1.1\r\n\r\n") for _ in range(10)]
        # The connection that saw the proxy start may have been counted as idle.
        wait_for(lambda: len(os.listdir(f"/proc/{e.process.pid}/fd")) >= idle + 10 * 5 - 1, "the attempts")
        time.sleep(0.3)  # more would come now
        self.assertLessEqual(len(os.listdir(f"/proc/{e.process.pid}/fd")), idle + 10 * 5 + 2)
        self.assertEqual(e.tunnel("allowed.test:7")[0], 200)
        self.assertTrue(conns)

    def test_the_ninth_address_is_reached_behind_black_holes(self):
        self.dns.zones["holes.test"] = Zone([f"11.22.44.{i}" for i in range(1, 9)] + [PUBLIC])
        e = self.start({"ALLOW_HOSTS": "holes.test", "ALLOW_CONNECT_PORTS": "7", "TIMEOUT_STAGGER": "20ms"})
        self.assertEqual(e.tunnel("holes.test:7")[0], 200)
        self.assertEqual(e.decisions()[-1]["address"], PUBLIC)

    def test_full_of_idle_connections(self):
        """Connections without a request end by the time of the head; until then the rest is told that there is no room."""
        e = self.start({"ALLOW_HOSTS": "allowed.test", "LIMITS_CONNECTIONS": "20", "TIMEOUT_HEAD": "700ms"})
        silent = [e.connect() for _ in range(200)]
        for conn in silent:
            try:
                conn.rest()
            except ConnectionResetError:
                pass
        self.assertEqual(e.ask("http://allowed.test/")[0], 200)
