"""Running it: configuration, reload, drain, warn mode, metrics, probe, pinned TCP targets."""

import json
import os
import signal
import socket
import time

import base
from base import PUBLIC
from dns import Zone
from proxy import free_port, run, wait_for

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def get(port, path):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        data = b""
        while more := s.recv(65536):
            data += more
    head, body = data.split(b"\r\n\r\n", 1)
    return int(head.split(b" ")[1]), body.decode()


class Configuration(base.Case):
    def refused(self, says, config=None, **env):
        path = os.path.join(base.directory, "bad.json")
        arguments = ["--check"]
        if config is not None:
            with open(path, "w", encoding="utf-8") as f:
                f.write(config if isinstance(config, str) else json.dumps(config))
            arguments += ["--config", path]
        done = run(*arguments, env=env)
        self.assertEqual(done.returncode, 2, (config, env))
        self.assertIn(says, done.stderr)

    def test_errors_say_what_and_where(self):
        self.refused('bad.json:1:2: unknown key "alowHosts"; did you mean "allowHosts"?', '{"alowHosts": []}')
        self.refused("two labels", {"allowHosts": ["*.com"]})
        self.refused("host bits", {"refuseCidrs": ["10.0.0.1/8"]})
        self.refused("bad.json:3", '{\n"allowHosts": ["a.test",\n"*"]}')
        self.refused("list of strings", {"allowHosts": [True]})
        self.refused("xn--", ALLOW_HOSTS="b\u00fccher.test")
        self.refused("not an address", CAPYBARA_EGRESS_TEST_HOSTS="a.test=b")
        self.refused("range", ALLOW_CONNECT_PORTS="1-1024")
        self.refused("TIMEOUT_IDLE", TIMEOUT_IDLE="soon")
        self.assertEqual(run("--config", "/nonexistent", "--check").returncode, 2)

    def test_targets_that_cannot_be_pinned(self):
        for target, says in (("udp:53=a.test:53", "UDP"), ("53=udp:a.test:53", "UDP"), ("53=a.test:53/udp", "UDP"),
                             ("53/udp=a.test:53", "port"), ("1-9=a.test:1", "range"), ("1=a.test:1-9", "range"),
                             ("5432", "listenport=host:port"), ("5432=a.test", "port"), ("5432=a.test:1@", "address"),
                             ("5432=a.test:1@b.test", "address"), ("5432=10.0.0.1:1", "name a host"),
                             ("5432=a.test:1 5432=b.test:1", "listens there")):
            with self.subTest(target=target):
                self.refused(says, TCP_TARGETS=target)

    def test_notes_at_start(self):
        e = self.start({"ALLOW_HOSTS": "*.allowed.test dns.google *.github.io github.io",
                        "CAPYBARA_EGRESS_TEST_HOSTS": "allowed.test=127.0.0.1"})
        for says in ("*.allowed.test: the name itself", "DNS over HTTPS", "rent names", "exempt from the address check"):
            self.assertIn(says, e.text())

    def test_manual_and_example_agree_with_the_table(self):
        settings = [line.split() for line in run("--help").stdout.split("settings", 1)[1].splitlines()[1::2]]
        with open(os.path.join(TOP, "egressd", "egressd.conf.5"), encoding="utf-8") as f:
            manual = f.read()
        self.assertGreater(len(settings), 30)
        for key, variable, *default in settings:
            self.assertIn(f".It Li {key} Pq Ev {variable}\n", manual)
            if default != ["-"] and default:
                entry = manual.split(f".It Li {key} Pq", 1)[1].split("\n.It", 1)[0]
                self.assertIn(f".Li {default[0]} .", entry)
        self.assertEqual(manual.count("\n.It Li "), len(settings))
        self.assertEqual(run("--config", os.path.join(TOP, "conf", "egressd.conf.json"), "--check").returncode, 0)

    def test_the_example_shows_the_defaults(self):
        settings = {}
        for line in run("--help").stdout.split("settings", 1)[1].splitlines()[1::2]:
            key, _, *default = line.split()
            settings[key] = " ".join(default)
        with open(os.path.join(TOP, "conf", "egressd.conf.json"), encoding="utf-8") as f:
            example = json.loads("".join(line for line in f if not line.lstrip().startswith("//")))
        del example["allowHosts"]
        flat = {}
        for key, value in example.items():
            flat.update({f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value})
        for key, value in flat.items():
            text = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
            text = ",".join(map(str, text)) if isinstance(text, list) else str(text)
            self.assertEqual(text, settings[key], key)
        self.assertEqual((settings["timeouts.idle"], settings["timeouts.stagger"], settings["requireSni"]), ("1h", "250ms", "on"))

    def test_probe(self):
        e = self.start({"ALLOW_HOSTS": ""})
        before = len(e.lines())
        self.assertEqual(run("--probe", env={"LISTEN": f"127.0.0.1:{e.port}"}).returncode, 0)
        self.assertEqual(len(e.decisions()), before)
        self.assertEqual(run("--probe", env={"LISTEN": f"127.0.0.1:{free_port()}"}).returncode, 1)


class Life(base.Case):
    def config(self, **more):
        return {"allowHosts": ["allowed.test"], "allowConnectPorts": [7], "timeouts": {"reloadGrace": "1s", "drain": "10s"},
                **more}

    def test_reload(self):
        self.dns.zones["other.test"] = Zone([PUBLIC])
        e = self.start(config=self.config())
        status, kept = e.tunnel("allowed.test:7")
        self.assertEqual(e.tunnel("other.test:7")[0], 403)
        e.write_config(self.config(allowHosts=["other.test"]))
        e.signal(signal.SIGHUP)
        wait_for(lambda: "taken over" in e.text(), "the reload")
        self.assertEqual(e.tunnel("other.test:7")[0], 200)
        self.assertEqual(e.tunnel("allowed.test:7")[0], 403)
        kept.send(b"still here")
        self.assertEqual(kept.take(10), b"still here")
        self.assertTrue(kept.closed())
        self.assertEqual(e.last("close")["reason"], "reload")

    def test_a_variable_goes_before_the_file(self):
        e = self.start({"ALLOW_CONNECT_PORTS": "7", "TIMEOUT_DRAIN": "0"},
                       config=self.config(allowConnectPorts=[21], timeouts={"drain": "60s"}))
        self.assertEqual(e.tunnel("allowed.test:7")[0], 200)
        self.assertEqual(e.tunnel("allowed.test:21")[0], 403)
        e.write_config(self.config(allowConnectPorts=[9]))
        e.signal(signal.SIGHUP)
        wait_for(lambda: "taken over" in e.text(), "the reload")
        self.assertEqual(e.tunnel("allowed.test:7")[0], 200)
        self.assertEqual(e.tunnel("allowed.test:9")[0], 403)

    def test_bad_reload_changes_nothing(self):
        e = self.start(config=self.config())
        e.write_config({"allowHosts": ["*"]})
        e.signal(signal.SIGHUP)
        wait_for(lambda: "nothing changes" in e.text(), "the refusal")
        self.assertEqual(e.tunnel("allowed.test:7")[0], 200)

    def test_drain(self):
        e = self.start(config=self.config())
        status, conn = e.tunnel("allowed.test:7")
        idle = e.connect()
        e.signal(signal.SIGTERM)
        self.assertTrue(idle.closed())
        wait_for(lambda: "draining" in e.text(), "the drain")
        self.assertRaises(OSError, lambda: socket.create_connection(("127.0.0.1", e.port), timeout=5))
        conn.send(b"finish")
        self.assertEqual(conn.take(6), b"finish")
        conn.half_close()
        self.assertTrue(conn.closed())
        self.assertEqual(e.process.wait(20), 0)

    def test_drain_has_an_end(self):
        e = self.start(config=self.config(timeouts={"drain": "500ms"}))
        status, conn = e.tunnel("allowed.test:7")
        e.signal(signal.SIGTERM)
        self.assertTrue(conn.closed())
        self.assertEqual(e.process.wait(20), 0)
        self.assertEqual(e.lines("close")[-1]["reason"], "shutdown")

    def test_second_signal_does_not_wait(self):
        e = self.start(config=self.config())
        e.tunnel("allowed.test:7")
        e.signal(signal.SIGTERM)
        wait_for(lambda: "draining" in e.text(), "the drain")
        e.signal(signal.SIGTERM)
        self.assertEqual(e.process.wait(20), 0)

    def test_warn_mode_still_checks_addresses(self):
        self.dns.zones["off-list.test"] = Zone([PUBLIC])
        self.dns.zones["inside.test"] = Zone(["10.0.0.1"])
        e = self.start(config=self.config(mode="warn"))
        self.assertEqual(e.tunnel("off-list.test:7")[0], 200)
        entry = e.decisions()[-1]
        self.assertEqual((entry["decision"], entry["reason"], entry["mode"]), ("warn", "host-not-allowed", "warn"))
        self.assertEqual(e.tunnel("inside.test:7")[0], 403)
        self.assertEqual(e.tunnel("127.0.0.1:7")[0], 403)
        self.assertIn("never for production", e.text())

    def test_time_budget_of_all(self):
        e = self.start(config=self.config(timeouts={"total": "1s"}))
        status, conn = e.tunnel("allowed.test:7")
        self.assertEqual(status, 200)
        self.assertTrue(conn.closed())
        self.assertEqual(e.tunnel("allowed.test:7")[0], 403)

    def test_metrics_and_health(self):
        port = free_port()
        e = self.start(config=self.config(admin=f"127.0.0.1:{port}"))
        status, conn = e.tunnel("allowed.test:7")
        conn.send(b"12345")
        self.assertEqual(conn.take(5), b"12345")
        conn.half_close()
        self.assertTrue(conn.closed())
        e.tunnel("evil.test:7")
        e.decisions()
        status, text = get(port, "/metrics")
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        self.assertEqual(values["egressd_tunnels_total"], "1")
        self.assertEqual(values["egressd_bytes_up_total"], "5")
        self.assertEqual(values['egressd_requests_total{reason="ok"}'], "1")
        self.assertGreaterEqual(int(values['egressd_requests_total{reason="host-not-allowed"}']), 2)
        self.assertEqual(json.loads(get(port, "/healthz")[1])["status"], "ok")
        self.assertEqual(get(port, "/readyz")[0], 200)
        self.assertEqual(get(port, "/allowlist")[1], "allowed.test\n")
        done = run("--check", env={"ADMIN": "0.0.0.0:1"})
        e = self.start(wait=False, config=self.config(admin="0.0.0.0:1"))
        self.assertEqual(e.process.wait(20), 1)
        self.assertIn("loopback", e.text())
        self.assertEqual(done.returncode, 0)

    def test_admin_is_out_of_reach_of_the_sandbox(self):
        port = free_port()
        e = self.start({"ALLOW_HOSTS": f"pin.test:{port}", "CAPYBARA_EGRESS_TEST_HOSTS": "pin.test=127.0.0.1",
                        "ADMIN": f"127.0.0.1:{port}"})
        self.assertEqual(e.tunnel(f"pin.test:{port}")[0], 403)
        self.assertEqual(e.decisions()[-1]["reason"], "address-own")

    def test_loop_to_itself(self):
        port = free_port()
        e = self.start({"LISTEN": f"127.0.0.1:{port}", "ALLOW_HOSTS": f"pin.test:{port}",
                        "CAPYBARA_EGRESS_TEST_HOSTS": "pin.test=127.0.0.1"}, wait=False)
        e.port = port
        wait_for(e.accepts, "the start")
        self.assertEqual(e.tunnel(f"pin.test:{port}")[0], 403)


class Targets(base.Case):
    def relay(self, target, **env):
        port = free_port()
        return port, self.start({"TCP_TARGETS": f"127.0.0.1:{port}={target}", **env})

    @staticmethod
    def connected(port):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:  # pinned, and about to listen
            return None

    def talk(self, port, data):
        with wait_for(lambda: self.connected(port), "the relay") as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while more := s.recv(65536):
                got += more
            return got

    def test_resolved_once_before_listening(self):
        self.dns.zones["db.test"] = Zone(each=[[PUBLIC], ["127.0.0.1"]])
        port, e = self.relay("db.test:7")
        asked = len(self.dns.questions("db.test"))
        for _ in range(3):
            self.assertEqual(self.talk(port, b"query"), b"query")
        self.assertEqual(len(self.dns.questions("db.test")), asked)
        entry = e.last("close", 3)
        self.assertEqual((entry["method"], entry["object"], entry["address"], entry["bytesIn"]), ("TCP", "db.test:7", PUBLIC, 5))

    def test_pinned_by_hand_is_never_asked(self):
        port, e = self.relay("db.test:21@11.22.55.1,11.22.33.9")
        self.assertEqual(self.talk(port, b"x"), b"220 hello\r\nx")
        self.assertEqual(self.dns.questions(), [])

    def test_the_allowlist_leads_to_the_pinned_addresses(self):
        """In the sandbox's network the host's name is the relay's own."""
        self.dns.zones["db.test"] = Zone(["127.0.0.1"])
        port, e = self.relay("db.test:21@11.22.33.9", ALLOW_HOSTS="db.test:7")
        self.assertEqual(e.tunnel("db.test:7")[0], 200)
        self.assertEqual(e.decisions()[-1]["address"], "11.22.33.9")
        self.assertEqual(e.tunnel("db.test:21")[0], 403)
        self.assertEqual(self.dns.questions(), [])

    def test_a_bad_address_is_no_start(self):
        for zone, target in ((Zone([PUBLIC, "10.0.0.1"]), "db.test:7"), (Zone(), "db.test:7"), (None, "db.test:7@10.0.0.1")):
            self.dns.zones["db.test"] = zone
            e = self.start({"TCP_TARGETS": f"127.0.0.1:{free_port()}={target}"}, wait=False)
            self.assertEqual(e.process.wait(20), 1)
            self.assertIn("cannot be pinned", e.text())

    def test_a_running_relay_counts_for_the_budget_of_all(self):
        port, e = self.relay("db.test:7@11.22.33.9", LIMITS_TOTAL_BYTES="1000")
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(b"x" * 600)
            with self.assertRaises(ConnectionResetError):
                while s.recv(65536):
                    pass
        self.assertEqual((e.last("close")["method"], e.last("close")["reason"]), ("TCP", "budget-exhausted"))

    def test_test_hosts_may_be_private(self):
        port, e = self.relay("pin.test:7", CAPYBARA_EGRESS_TEST_HOSTS="pin.test=10.99.0.2")
        self.assertEqual(self.talk(port, b"x"), b"x")

    def test_targets_alone(self):
        self.dns.zones["db.test"] = Zone([PUBLIC])
        port = free_port()
        e = self.start({"TCP_TARGETS": f"127.0.0.1:{port}=db.test:7", "LISTEN": ""})
        self.assertEqual(self.talk(port, b"x"), b"x")
        self.assertNotIn("listening on", e.text())
