"""Containers that the policy let through, as a real engine made them: every invariant of the policy must hold.

usage: creates.py GENERATE SOCKET COUNT SEED IMAGE...

GENERATE (tests/differential/generate) makes bodies and prints those that the policy allows; each container create among
them goes to the engine in its canonical form, until COUNT containers were made. What the engine says of each is looked
at without any code of the proxy's.
"""
import http.client
import json
import socket
import subprocess
import sys


class Engine(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, target, body=None):
        fields = {"Content-Type": "application/json"} if body is not None else {}
        self.request(method, target, body, fields)
        answer = self.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None


def creates(generate, seed):
    """The canonical bodies of allowed creates, one after the other."""
    source = subprocess.Popen([generate, "1000000", str(seed)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        while True:
            line = source.stdout.readline().split()
            if not line:
                return
            source.stdout.read(int(line[1]))
            canonical = source.stdout.read(int(line[2]))
            if line[0] == b"container.create":
                yield canonical
    finally:
        source.kill()
        source.wait()


def faults(c):
    """What of an inspected container a sandbox must never have."""
    h = c["HostConfig"]
    zero = ("Privileged", "Binds", "CapAdd", "Devices", "DeviceRequests", "DeviceCgroupRules", "GroupAdd", "VolumesFrom",
            "PidMode", "UTSMode", "UsernsMode", "Cgroup", "CgroupParent", "Sysctls", "Annotations", "PortBindings",
            "PublishAllPorts", "ExtraHosts", "Links", "OomKillDisable", "StorageOpt", "CpusetCpus", "CpuRealtimeRuntime")
    found = [f"{k} is {h[k]}" for k in zero if h.get(k)]
    wanted = {
        "CapDrop": any(c in ("ALL", "all") for c in h["CapDrop"] or []),
        "SecurityOpt": h["SecurityOpt"] and all(s.startswith("no-new-privileges") and "false" not in s
                                                for s in h["SecurityOpt"]),
        "ReadonlyRootfs": h["ReadonlyRootfs"] is True,
        "PidsLimit": h["PidsLimit"] is not None and 1 <= h["PidsLimit"] <= 4096,
        "Memory": 4 << 20 <= h["Memory"] <= 64 << 30,
        "OomScoreAdj": h["OomScoreAdj"] >= 0,
        "IpcMode": h["IpcMode"] in ("private", "none"),
        "CgroupnsMode": h.get("CgroupnsMode", "private") in ("private", "host") and h.get("CgroupnsMode") != "",
        "NetworkMode": h["NetworkMode"] == "none" or h["NetworkMode"].startswith("cap"),
        "Runtime": h["Runtime"] in ("runc", "runsc"),
        "MaskedPaths": "/proc/kcore" in h["MaskedPaths"] and "/sys/firmware" in h["MaskedPaths"],
        "ReadonlyPaths": "/proc/sys" in h["ReadonlyPaths"],
        "RestartPolicy": h["RestartPolicy"]["Name"] in ("", "no") or h["RestartPolicy"]["MaximumRetryCount"] > 0,
        "LogConfig": h["LogConfig"]["Type"] in ("json-file", "local", "none"),
        "Label": c["Config"]["Labels"].get("dev.capybara.sandbox") == "1",
        "Name": c["Name"].startswith("/cap-"),
        "Mounts": all(m["Type"] in ("volume", "tmpfs") and (m["Type"] != "volume" or m["Name"].startswith("cap-"))
                      for m in c["Mounts"]),
        "Networks": all(n == "none" or n.startswith("cap") for n in c["NetworkSettings"]["Networks"]),
        "MacAddress": not c["Config"].get("MacAddress"),
    }
    return found + [f"{k} does not hold" for k, ok in wanted.items() if not ok]


def main():
    generate, path, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    engine = Engine(path)
    version = engine.ask("GET", "/version")[1]["ApiVersion"]
    target = f"/v{min(version, '1.51', key=lambda v: int(v.split('.')[1]))}"
    made = refused = bad = 0
    for body in creates(generate, seed):
        status, answer = engine.ask("POST", f"{target}/containers/create?name=cap-g{made}", body)
        if status != 201:
            refused += 1  # the engine has rules of its own, such as one network before API 1.44
            if refused > 20 * (made + 10):
                print(f"# the engine refuses nearly all: {status} {answer}")
                return 1
            continue
        made += 1
        found = faults(engine.ask("GET", f"{target}/containers/{answer['Id']}/json")[1])
        engine.ask("DELETE", f"{target}/containers/{answer['Id']}?force=1")
        if found:
            bad += 1
            print(f"# {found}: {body.decode()}")
        if made == count:
            break
    print(f"# {made} containers made, {refused} refused by the engine, {bad} with a fault")
    return 0 if made == count and bad == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
