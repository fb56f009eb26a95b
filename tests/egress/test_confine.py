"""The whole path once more with everything taken away that can be: another user, no files, few system calls."""

import json
import os
import signal
import threading

import base
from base import PUBLIC
from dns import Zone
from proxy import free_port, wait_for
from test_operate import get


class Confined(base.Case):
    env = {"ALLOW_HOSTS": "allowed.test slow.test", "ALLOW_CONNECT_PORTS": "7", "CONFINE": "on", "RUN_USER": "65534",
           "ASAN_OPTIONS": "detect_leaks=0"}

    def test_process(self):
        status = self.egressd.memory()
        self.assertEqual(status["Uid"].split()[0], "65534")
        self.assertEqual(status["CapEff"], "0000000000000000")
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")

    def test_everything_works(self):
        self.dns.zones["slow.test"] = Zone([PUBLIC], ["2a00:11::1"], tc=True, delay=0.1)
        for name in ("allowed.test", "slow.test"):
            status, conn = self.egressd.tunnel(f"{name}:7")
            self.assertEqual(status, 200)
            conn.send(b"x").half_close()
            self.assertEqual(conn.rest(), b"x")
        self.assertEqual(self.egressd.ask("http://allowed.test/")[0], 200)
        self.assertEqual(self.egressd.tunnel("evil.test:7")[0], 403)
        self.assertEqual(len(self.egressd.decisions()), 4)

    def pipes(self):
        directory = f"/proc/{self.egressd.process.pid}/fd"
        return sum(os.readlink(f"{directory}/{fd}").startswith("pipe:") for fd in os.listdir(directory))

    def test_much_is_spliced(self):
        status, conn = self.egressd.tunnel("allowed.test:7")
        self.assertEqual(status, 200)
        before, size, block = self.pipes(), 64 * 1024 * 1024, bytes(range(251)) * 4096

        def send():
            for at in range(0, size, len(block)):
                conn.send(block[:size - at])
            conn.half_close()

        sender = threading.Thread(target=send)
        sender.start()
        wait_for(lambda: self.pipes() > before, "a pipe")
        got = 0
        while data := conn.sock.recv(len(block)):
            at = got % len(block)
            self.assertTrue((block + block)[at:at + len(data)] == data)
            got += len(data)
        self.assertEqual(got, size)
        sender.join()
        entry = self.egressd.last("close")
        self.assertEqual((entry["reason"], entry["bytesIn"], entry["bytesOut"]), ("closed", size, size))

    def test_reload_and_audit_file(self):
        audit = os.path.join(base.directory, "audit")
        os.makedirs(audit, exist_ok=True)
        os.chmod(audit, 0o777)
        log = os.path.join(audit, "log")
        admin = free_port()
        config = {"allowHosts": ["allowed.test"], "audit": {"path": log}, "admin": f"127.0.0.1:{admin}"}
        e = self.start({k: v for k, v in self.env.items() if k != "ALLOW_HOSTS"}, config=config)
        self.assertEqual(e.tunnel("evil.test:7")[0], 403)
        wait_for(lambda: os.path.getsize(log) > 0, "the audit line")
        os.rename(log, log + ".1")
        e.write_config({**config, "allowHosts": ["allowed.test", "evil.test"]})
        e.signal(signal.SIGHUP)
        wait_for(lambda: "taken over" in e.text(), "the reload")
        self.assertEqual(e.tunnel("evil.test:7")[0], 502)
        wait_for(lambda: os.path.exists(log) and os.path.getsize(log) > 0, "the line in the new file")
        confinement = json.loads(get(admin, "/healthz")[1])["confinement"]
        self.assertTrue(confinement["noNewPrivs"] and confinement["seccomp"])
