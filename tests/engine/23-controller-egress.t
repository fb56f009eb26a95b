#!/usr/bin/env python3
"""What a sandbox reaches in each egress mode, and what it does not."""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403

N = f"cap-eg{os.getpid()}"
M = N + "b"
LIMITS = {"memoryMb": 128}

# A server on the engine's side: an allowed host's stand-in, and a resolver that writes down what it is asked.
SERVER = r"""
import socket, sys, threading
http = socket.create_server(("::", 8099), family=socket.AF_INET6, dualstack_ipv6=True)
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.bind(("0.0.0.0", 53))
def names():
    while True:
        data, peer = dns.recvfrom(512)
        print("asked", data[12:60], flush=True)
threading.Thread(target=names, daemon=True).start()
print("ready", flush=True)
while True:
    c, peer = http.accept()
    c.recv(4096)
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
    c.close()
"""

# bash speaks HTTP through /dev/tcp: the small image has no curl.
ASK = r"""exec 3<>/dev/tcp/$P/3128 || exit 9; printf '%s\r\n\r\n' "$1" >&3; head -c 300 <&3"""


# Listens in a sandbox, where perl is what the small image has, and says hello.
LISTEN = r"""exec perl -MIO::Socket::INET -e '
my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "0.0.0.0", LocalPort => 8098, ReuseAddr => 1) or die;
while (my $c = $s->accept) { print $c "hello\n"; close $c }'"""


def in_engine(*words, **k):
    return subprocess.Popen([ENGINE, "exec", ENGINE_DIR, *words], stdout=subprocess.PIPE, text=True, **k)


def said_in_engine(*words):
    return in_engine(*words).communicate()[0]


def reached(c, name, address, port):
    """What a sandbox reads from there; "" when it reaches nothing."""
    line = f"timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port} && echo GET / >&3 && head -c 5 <&3' 2>/dev/null"
    return c.call("exec", id=name, command=line, timeoutMs=20000)["stdout"]


def apart(c, network, what):
    """M listens on its address in the network, and N does not reach it there."""
    i = c.start("exec", id=M, command=LISTEN)
    check("A.egress.5", f"{what}: another sandbox listens", wait_for(lambda: reached(c, M, "127.0.0.1", 8098) == "hello", 30))
    peer = inspect(M)["NetworkSettings"]["Networks"][network]["IPAddress"]
    equal("A.egress.5", f"{what}: and is reached by itself", reached(c, M, peer, 8098), "hello")
    equal("A.egress.5", f"{what}: but not from here", reached(c, N, peer, 8098), "")
    c.notify("$/cancelRequest", id=i)
    c.answer(i)


# The engine's resolver is the server, whatever the machine's is: a name that the engine passes on is then heard.
RESOLVER = 'f=$(readlink -m /etc/resolv.conf); mkdir -p "${f%/*}"; [ -e "$f" ] || : >"$f"; mount --bind "$1" "$f"'


class Server:
    def __enter__(self):
        gateway = subprocess.run([ENGINE, "gateway"], capture_output=True, text=True, check=True).stdout.strip()
        with open(os.path.join(ENGINE_DIR, "resolv.conf"), "w", encoding="ascii") as f:
            f.write(f"nameserver {gateway}\n")
        engine = subprocess.run([ENGINE, "pid", ENGINE_DIR], capture_output=True, text=True, check=True).stdout.strip()
        self.inside = ["nsenter", "--target", engine, "--mount", "--pid"]
        subprocess.run([*self.inside, "sh", "-ec", RESOLVER, "sh", f.name], check=True)
        self.process = in_engine("python3", "-u", "-c", SERVER)
        equal("A.egress.5", "a server listens on every address of the host, and is its resolver",
              self.process.stdout.readline(), "ready\n")
        self.hear(gateway)
        return self

    def hear(self, gateway):
        """What no sandbox of ours may: a plain container asks it for a name, and reaches it."""
        plain = f"cap-plain{os.getpid()}"
        docker("network", "create", plain)
        line = f"timeout 5 getent hosts control.example; exec 3<>/dev/tcp/{gateway}/8099; echo GET / >&3; head -c 5 <&3"
        ask = lambda: subprocess.run(["docker", "run", "--rm", "--network", plain, IMAGE, "bash", "-c", line],  # noqa: E731
                                     capture_output=True, text=True, timeout=120)
        check("A.egress.5", "a plain container reaches it", wait_for(lambda: ask().stdout == "HTTP/"), ask())
        docker("network", "rm", plain)

    def __exit__(self, *_):
        self.process.terminate()
        self.said = self.process.communicate()[0]
        subprocess.run([*self.inside, "sh", "-c", 'umount "$(readlink -m /etc/resolv.conf)"'], check=True)
        check("A.egress.5", "and its names are asked of it", "control" in self.said, self.said)


def test_isolation():
    """Nothing but its own proxy: whatever the engine's release makes of an internal network."""
    with Server(), client() as c:
        try:
            for name in (N, M):
                c.call("create", name=name, limits={**LIMITS, "egress": "allowlist"})
            x = lambda line, name=N: c.call("exec", id=name, command=line, timeoutMs=20000)["stdout"]  # noqa: E731
            network = json.loads(docker("network", "inspect", f"{N}-net"))[0]
            gateway = network["IPAM"]["Config"][0].get("Gateway", "").split("/")[0]
            bridge = "br-" + network["Id"][:12]
            equal("A.egress.5", "the host holds no IPv4 address on the sandbox's bridge",
                  "inet " in said_in_engine("ip", "addr", "show", bridge), False)
            if gateway:
                equal("A.egress.5", f"what listens on the host is not reached by the gateway {gateway}",
                      reached(c, N, gateway, 8099), "")
            for line in said_in_engine("ip", "-6", "-o", "addr", "show", bridge).splitlines():
                address = line.split()[3].split("/")[0]
                equal("A.egress.5", f"nor by the bridge's {address}", reached(c, N, address + "%eth0", 8099), "")
            shared = json.loads(docker("network", "inspect", "capybara-sandbox"))[0]["IPAM"]["Config"][0]["Gateway"]
            equal("A.egress.5", "nor by the shared network's gateway", reached(c, N, shared.split("/")[0], 8099), "")
            equal("A.egress.5", "the sandbox has no IPv6 address but the loopback's",
                  [a.split()[-1] for a in x("cat /proc/net/if_inet6 2>/dev/null").splitlines() if a.split()[-1] != "lo"], [])
            own = inspect(N + "-egress")["NetworkSettings"]["Networks"][f"{N}-net"]["IPAddress"]
            neighbours = [e.split() for e in x("tail -n +2 /proc/net/arp").splitlines()]
            equal("A.egress.2", "its only neighbour is its proxy",
                  [e[0] for e in neighbours if e[2] != "0x0" and e[0] != own], [])
            apart(c, f"{M}-net", "allowlist")
            for address in (n["IPAddress"] for n in inspect(M + "-egress")["NetworkSettings"]["Networks"].values()):
                line = f"timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/3128 && echo up' 2>/dev/null"
                equal("A.egress.5", f"nor is its proxy at {address}", x(line), "")
        finally:
            for name in (N, M):
                c.call("destroy", id=name)


def test_open():
    """The shared network, where the deployment allows it: two sandboxes on one bridge do not reach each other."""
    with client(extra=["--allow-open-egress"]) as c:
        try:
            for name in (N, M):
                c.call("create", name=name, limits={**LIMITS, "egress": "open"})
            apart(c, "capybara-sandbox", "open")
        finally:
            for name in (N, M):
                c.call("destroy", id=name)


def test_allowlist():
    gateway = subprocess.run([ENGINE, "gateway", ENGINE_DIR], capture_output=True, text=True).stdout.strip() or "10.201.0.1"
    with Server() as server:
        with client() as c:
            c.call("create", name=N, limits={**LIMITS, "egress": "allowlist", "allowHosts": ["good.example:8099", "plain.example"]},
                   testOptions={"egressTestHosts": {"good.example": [gateway]}})
            c.call("create", name=M, limits={**LIMITS, "egress": "allowlist"})
            x = lambda line, **k: c.call("exec", id=N, command=line, timeoutMs=20000, **k)  # noqa: E731
            env = x("echo $HTTP_PROXY $HTTPS_PROXY $http_proxy $https_proxy; echo $NO_PROXY")["stdout"]
            equal("A.egress.2", "the proxy's environment", env, f"{' '.join([f'http://{N}-egress:3128'] * 4)}\n"
                  "localhost,127.0.0.1,::1\n")
            ask = lambda head: x(f"P={N}-egress; set -- '{head}'; " + ASK)["stdout"]  # noqa: E731
            check("A.egress.2", "an allowed host is reached through the proxy",
                  wait_for(lambda: "hello" in ask("GET http://good.example:8099/ HTTP/1.0"), 20),
                  ask("GET http://good.example:8099/ HTTP/1.0"))
            for what, head in (("a host off the list", "CONNECT other.example:443 HTTP/1.1"),
                               ("an address", f"CONNECT {gateway}:443 HTTP/1.1"),
                               ("a port off the list", "CONNECT plain.example:22 HTTP/1.1")):
                answer = ask(head + "'$'\\r\\n''Host: x")
                check("A.egress.3", f"{what} is refused", " 403 " in answer or " 400 " in answer, answer)
            r = x(f"timeout 3 bash -c 'echo >/dev/tcp/{gateway}/8099' && echo reached")
            equal("A.egress.5", "the address of the engine's bridge is not reached directly", r["stdout"], "")
            routes = x("cat /proc/net/route")["stdout"].splitlines()[1:]
            gateways = {line.split()[2] for line in routes if line.split()[1] == "00000000"}
            for g in gateways:
                address = ".".join(str(int(g[i:i + 2], 16)) for i in (6, 4, 2, 0))
                holders = in_engine("ip", "-o", "addr").communicate()[0]
                check("A.egress.5", f"nobody holds the default gateway {address}", f" {address}/" not in holders, holders)
            equal("A.egress.5", "external names do not resolve", x("timeout 10 getent hosts outside.example")["stdout"], "")
            check("A.egress.5", "the proxy's own does", f"{N}-egress" in x(f"getent hosts {N}-egress")["stdout"])
            equal("A.egress.5", "another sandbox's proxy has no name here", x(f"timeout 10 getent hosts {M}-egress")["stdout"], "")
            c.call("destroy", id=N)
            c.call("destroy", id=M)
    check("A.egress.5", "the resolver on the engine's side was asked for no external name", "outside" not in server.said, server.said)


def test_none():
    with client() as c:
        c.call("create", name=N, limits={**LIMITS, "egress": "none"})
        r = c.call("exec", id=N, command="tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route; env | grep -ci proxy")
        equal("A.egress.1", "none has loopback alone, no route and no proxy", r["stdout"].split(), ["lo", "0"])
        c.call("destroy", id=N)


def test_names():
    with client() as c:
        for hosts, part in ((["bücher.example"], "punycode"), (["10.0.0.1"], "IP address"), (["http://x/"], "port")):
            try:
                c.call("create", name=N, limits={"allowHosts": hosts})
                check("A.egress.7", f"{hosts} is refused", False)
            except RpcError as e:
                check("A.egress.7", f"{hosts} is refused in words", e.kind == "invalid" and part in str(e), e)
        try:
            c.call("create", name=N, image="bücher")
            check("A.egress.7", "an image name is ASCII", False)
        except RpcError as e:
            check("A.egress.7", "an image name is ASCII", "ASCII" in str(e), e)
        kind = kind_of(lambda: c.call("create", name=N, image="127.0.0.1:1/absent:none", limits={"egress": "none"}))
        equal("A.config.5", "an image that cannot be pulled", kind, "unavailable")
        equal("B.9", "leaves nothing", leftovers(N), [])


run(test_names)
run_in(["runc/engine"], test_none, test_allowlist, test_isolation, test_open)
done()
