"""What the test cases share: one directory, one DNS server, an egressd for each test or class."""

import unittest

import dns
import proxy

directory = None
# LeakSanitizer stops the process by ptrace, which confinement and another user forbid: test_confine is for those.
QUIET = {"CONFINE": "off", "RUN_USER": "0"}
PUBLIC = "11.22.33.1"
PUBLIC6 = "2a00:11::1"
server = None


def dns_server():
    global server
    if server is None:
        server = dns.Server()
    return server


class Case(unittest.TestCase):
    """`env` of a class is the environment of its egressd; start() starts others."""

    env = None

    def setUp(self):
        self.dns = dns_server()
        self.dns.zones = {"allowed.test": dns.Zone([PUBLIC])}
        self.dns.forget()
        self.started = []
        if self.env is not None:
            self.egressd = self.start(self.env)

    def start(self, env=None, **more):
        e = proxy.Egressd(directory, {"RESOLVER": self.dns.address, **QUIET, **(env or {})}, **more)
        self.started.append(e)
        return e

    def tearDown(self):
        for e in self.started:
            e.stop()

    def assert_refused(self, answer, status, reason):
        got, fields, body = answer[:3]
        self.assertEqual((got, fields[":phrase"].rpartition("(")[2].rstrip(")")), (status, reason))
        self.assertIn(reason, fields["proxy-status"])
        self.assertIn(reason.encode(), body)
