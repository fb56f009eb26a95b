#!/usr/bin/env python3
"""A fault at each request of an operation is told, and made good for or repeated; answers of proxies are not the engine's.

With FAULTS=all each fault at each request, which takes an hour; otherwise those at the requests that change something.
"""

import json
import os
import queue
import re
import socket
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403
from faulty import Faulty  # noqa: E402

N = f"cap-fi{os.getpid()}"
TIMEOUT = 12  # of one operation: more than one takes on a busy machine
LIMITS = {"egress": "allowlist", "memoryMb": 128}
ALL = os.environ.get("FAULTS") == "all"
WORKERS = 4  # a case mostly waits: for a time-out, or for the engine

# What happens to one request. The last two are past the client's patience: the request comes to the engine only then, or was
# done at once and its answer comes only then.
FAULTS = ("refuse", "drop", "lose", "late", "slow")


def whole(c, name):
    """The sandbox is there, with all its parts, and runs commands."""
    parts = leftovers(name)
    return len(parts) == 5 and c.call("exec", id=name, command="echo x")["stdout"] == "x\n" and \
        inspect(name + "-egress")["State"]["Status"] == "running"


def create(c, name):
    c.call("create", name=name, limits=LIMITS)


def create_with_file(c, name):
    create(c, name)
    c.call("writeFile", id=name, path="/workspace/keep", data="kept")


def suspend_and_unmake(c, name):
    """Suspended, and its network and proxy are gone: resume has most to do then."""
    if leftovers(name) == []:
        create_with_file(c, name)
    c.call("suspend", id=name)
    docker("rm", "-f", name + "-egress")
    docker("network", "rm", name + "-net")


def running_with_file(c, name):
    if leftovers(name) == []:
        create_with_file(c, name)
    c.call("resume", id=name)


def nothing_left(c, name, kind):
    """create: made whole, or nothing of it is left."""
    return whole(c, name) if kind is None else wait_for(lambda: leftovers(name) == [], 5)


def made_anew(c, name, kind):
    """create over an old instance: told to have failed it can be repeated, and the old one's file is gone either way."""
    if kind is not None:
        create(c, name)
    return whole(c, name) and not c.call("stat", id=name, path="/workspace/keep")["exists"]


def suspended(c, name, kind):
    """suspend: told to have failed it can be repeated; the files stay."""
    if kind is not None:
        c.call("suspend", id=name)
    states = [inspect(n)["State"]["Status"] for n in (name, name + "-egress")]
    return states == ["exited", "exited"] and c.call("readFile", id=name, path="/workspace/keep")["data"] == "kept"


def resumed(c, name, kind):
    """resume: told to have failed it can be repeated; files, network and proxy are there."""
    if kind is not None:
        c.call("resume", id=name)
    return whole(c, name) and c.call("readFile", id=name, path="/workspace/keep")["data"] == "kept" and \
        f"{name}-egress" in c.call("exec", id=name, command=f"getent hosts {name}-egress")["stdout"]


def destroyed(c, name, kind):
    """destroy: told to have failed it can be repeated; then nothing is left."""
    if kind is not None:
        c.call("destroy", id=name)
    return leftovers(name) == []


# Operation, what it starts from, what has to hold after a fault in it, and of which requests by default, with which faults.
OPERATIONS = {
    "create": (lambda c, name: leftovers(name) == [] or c.call("destroy", id=name), nothing_left, ("POST",), ("refuse", "drop", "lose", "late")),
    "recreate": (create_with_file, made_anew, (), ()),
    "suspend": (running_with_file, suspended, ("POST",), ("drop", "lose")),
    "resume": (suspend_and_unmake, resumed, ("POST",), ("drop", "lose")),
    "destroy": (lambda c, name: leftovers(name) == [] and create(c, name), destroyed, ("DELETE",), ("drop", "lose")),
}


def operate(c, operation, name):
    if operation in ("create", "recreate"):
        return kind_of(lambda: create(c, name))
    return kind_of(lambda: c.call(operation, id=name))


class Worker:
    """Runs cases one after the other, on a sandbox of its own."""

    def __init__(self, number, scratch):
        self.name = f"{N}-{number}"
        self.network = f"cap-shared{os.getpid()}-{number}"
        self.faulty = Faulty(PROXY.removeprefix("unix://"), f"{scratch}/{number}.sock")
        self.plain = client(extra=["--network", self.network])
        self.last = None  # the operation whose sandbox can be gone on with

    def through(self, timeout=TIMEOUT):
        """A new controller: it asks for the engine's version, too."""
        return client(endpoint="unix://" + self.faulty.path,
                      extra=["--engine-timeout", str(timeout), "--network", self.network])

    def begin(self, operation):
        OPERATIONS[operation][0](self.plain, self.name)
        if operation == "create":  # makes the shared network, too, when it is the first
            docker("network", "rm", self.network, check_status=False)

    def template(self, text):
        return text and text.replace(self.name, "{0}").replace(self.network, "{1}")

    def filled(self, text):
        return text and text.format(self.name, self.network)

    def requests(self, operation):
        """What a clean run of the operation asks of the engine, each once."""
        self.begin(operation)
        self.faulty.seen = []
        with self.through(120) as c:
            kind = operate(c, operation, self.name)
        good = kind or OPERATIONS[operation][1](self.plain, self.name, None)
        seen = dict.fromkeys((m, self.template(path), self.template(named)) for m, path, named in self.faulty.seen)
        self.plain.call("destroy", id=self.name)
        return good, list(seen)

    def case(self, operation, request, fault):
        """What a line of the test needs: did the fault happen, what was told, and does what has to hold."""
        method, path, named = request
        if operation in ("create", "recreate") or operation != self.last:
            self.plain.call("destroy", id=self.name)
        self.last = None
        self.begin(operation)
        with self.through() as c:
            self.faulty.arm(method, "^" + re.escape(self.filled(path)) + "$", fault, seconds=TIMEOUT + 1, named=self.filled(named))
            kind = operate(c, operation, self.name)
            hits = self.faulty.hits
            self.faulty.disarm()
        holds = OPERATIONS[operation][1](self.plain, self.name, kind)
        self.last = operation
        return hits, kind, holds

    def end(self):
        self.plain.call("destroy", id=self.name)
        self.plain.close()
        docker("network", "rm", self.network, check_status=False)
        self.faulty.__exit__()


def wanted(operation, request, fault):
    _, _, methods, faults = OPERATIONS[operation]
    if fault == "late" and not request[1].startswith(("/volumes", "/networks/create", "/containers/create")):
        return False  # what makes nothing can leave nothing
    return ALL or (request[0] in methods and fault in faults)


def run_cases(worker, cases, results):
    while True:
        try:
            index, case = cases.get_nowait()
        except queue.Empty:
            return
        try:
            results[index] = worker.case(*case)
        except Exception as e:  # noqa: BLE001 - reported
            results[index] = (None, None, repr(e))


def test_faults():
    scratch = tempfile.mkdtemp()
    workers = [Worker(i, scratch) for i in range(WORKERS)]
    cases = []
    for operation, (_, _, methods, _) in OPERATIONS.items():
        if not ALL and not methods:
            continue
        good, requests = workers[0].requests(operation)
        check("A.lifecycle.1", f"{operation} without a fault, by {len(requests)} requests", good is True, f"{good}: {requests}")
        cases += [(operation, request, fault) for request in requests for fault in FAULTS if wanted(operation, request, fault)]
    todo, results = queue.Queue(), [None] * len(cases)
    # The longest first, so that they do not wait alone at the end.
    for index, case in sorted(enumerate(cases), key=lambda c: c[1][2] not in ("late", "slow")):
        todo.put((index, case))
    threads = [threading.Thread(target=run_cases, args=(w, todo, results)) for w in workers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for (operation, (method, path, named), fault), (hits, kind, holds) in zip(cases, results):
        name = f"{operation}, {fault} {method} {path}{' ' + named if named else ''}"
        # A request that makes something is either told to have failed, or was made good for: an end that is not true is neither.
        told = kind in ("unavailable", "timeout") or (kind is None and (operation, method) != ("create", "POST"))
        check("B.9", f"{name}: {OPERATIONS[operation][1].__doc__.split(':')[1].split(';')[0].strip('. ')}",
              hits == 1 and told and holds is True, f"hits {hits}, told {kind}, {holds}")
    for w in workers:
        w.end()
    os.rmdir(scratch)


def progress(*lines, end=b"0\r\n\r\n"):
    """An answer to a pull: once its progress flows, nothing but its lines says how it went. Each line comes in two pieces."""
    text = b"".join(json.dumps(line).encode() + b"\r\n" if isinstance(line, dict) else line for line in lines)
    pieces = [text[i:i + 7] for i in range(0, len(text), 7)]
    return (b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n" +
            b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + end)


def test_pull():
    """An image that is not there is pulled once, and what the stream says is believed, not its status."""
    scratch = tempfile.mkdtemp()
    image = f"pull.invalid/x{os.getpid()}:1"
    layer = {"status": "Downloading", "id": "ab12", "progressDetail": {"current": 3, "total": 9}}
    final = {"status": f"Status: Downloaded newer image for {image}"}

    def pulled():
        docker("tag", IMAGE, image)
        return progress(layer, final)
    cases = [
        ("an error within the 200", progress(layer, {"errorDetail": {"message": "no space left"}, "error": "no space left"}),
         "no space left"),
        ("an error after the final status", progress(final, {"error": "late"}), "late"),
        ("a stream without a final status", progress(layer), "without a final status"),
        ("a stream that is no JSON", progress(b"<html>\r\n", final), "not JSON"),
        ("a stream that is cut", progress(layer, end=b"5\r\nab"), ""),
    ]
    with Faulty(PROXY.removeprefix("unix://"), scratch + "/f.sock") as f:
        with client(endpoint="unix://" + f.path, extra=["--engine-timeout", "30"]) as c:
            make = lambda: c.call("create", name=N, image=image, limits={"egress": "none", "memoryMb": 128})  # noqa: E731
            for name, answer, words in cases:
                f.arm("POST", "^/images/create", "answer", answer=answer)
                try:
                    make()
                    check("A.config.5", f"{name}: create fails", False)
                except RpcError as e:
                    check("A.config.5", f"{name}: create fails and says so", e.kind == "unavailable" and words in str(e) and
                          image in str(e), e)
                equal("A.config.5", f"{name}: it was pulled once, and nothing is left", (f.hits, leftovers(N)), (1, []))
            f.arm("POST", "^/images/create", "answer", answer=pulled)
            equal("A.config.5", "the next call tries again", make()["state"], "running")
            told = [m["params"] for m in c.notes if m["method"] == "pull/progress"]
            check("A.config.5", "and its progress is told", f.hits == 1 and any("Downloading" in json.dumps(t) for t in told), told)
            make()
            equal("A.config.5", "an image that is there is not pulled", f.hits, 1)
            f.disarm()
            c.call("destroy", id=N)
    docker("rmi", image)
    os.rmdir(scratch)


def serve_once(path, answer):
    """An endpoint that answers the ping as an engine does and everything else with `answer`."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)

    def serve(conn):
        try:
            while data := conn.recv(65536):
                ping = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n"
                conn.sendall(ping if b" /_ping " in data else answer)
        except OSError:
            pass
        conn.close()

    def run():
        while True:
            try:
                conn, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(conn,), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    return server


def test_proxy_answers():
    scratch = tempfile.mkdtemp()
    json_404 = b'{"message":"No such container: x"}'
    cases = {
        "a proxy's 404 page": b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found",
        "a proxy's 404 in JSON": b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                                 % (len(json_404), json_404),
        "a 502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        "a 404 of the version header without JSON": b"HTTP/1.1 404 Not Found\r\nApi-Version: 1.41\r\nContent-Length: 3\r\n\r\nx y",
        "no HTTP": b"SSH-2.0-OpenSSH_9\r\n",
    }
    for i, (name, answer) in enumerate(cases.items()):
        path = f"{scratch}/{i}.sock"
        server = serve_once(path, answer)
        with client(endpoint="unix://" + path, extra=["--engine-timeout", "5"]) as c:
            for method, more in (("resume", {}), ("stat", {"path": "/"}), ("exec", {"command": "x"}), ("inspect", {})):
                kind = kind_of(lambda: c.call(method, id=N, **more))
                equal("C.1", f"{name} is not `gone`: {method}", kind, "unavailable")
        server.close()
        os.unlink(path)
    with client(endpoint=f"unix://{scratch}/none", extra=["--engine-timeout", "5"]) as c:
        equal("C.1", "no endpoint at all", kind_of(lambda: c.call("list")), "unavailable")
    genuine = b"HTTP/1.1 404 Not Found\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(json_404), json_404)
    server = serve_once(scratch + "/g.sock", genuine)
    with client(endpoint=f"unix://{scratch}/g.sock") as c:
        equal("C.1", "the engine's own 404 is", kind_of(lambda: c.call("inspect", id=N)), "gone")
    server.close()
    os.unlink(scratch + "/g.sock")
    os.rmdir(scratch)


class Replaced:
    """An endpoint that speaks one API version at a time, lists nothing, and refuses others as Docker does."""

    def __init__(self, path, minor):
        self.minor = minor
        self.minimum = 12
        self.asked = []
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen(8)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                conn, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def answer(self, line):
        status, body = "200 OK", b"[]"
        version = re.search(rb" /v1\.(\d+)/", line)
        if not version:
            body = b""
        else:
            asked = int(version.group(1))
            self.asked.append(asked)
            end = {True: f"new. Maximum supported API version is 1.{self.minor}",
                   False: f"old. Minimum supported API version is 1.{self.minimum}"}[asked > self.minor]
            if not self.minimum <= asked <= self.minor:
                status = "400 Bad Request"
                body = json.dumps({"message": f"client version 1.{asked} is too {end}"}).encode()
        return (f"HTTP/1.1 {status}\r\nApi-Version: 1.{self.minor}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body

    def serve(self, conn):
        try:
            while data := conn.recv(65536):
                conn.sendall(self.answer(data.split(b"\r\n", 1)[0]))
        except OSError:
            pass
        conn.close()


def test_replaced_engine():
    scratch = tempfile.mkdtemp()
    path = scratch + "/engine.sock"
    engine = Replaced(path, 51)
    with client(endpoint="unix://" + path, extra=["--engine-timeout", "5"]) as c:
        c.call("list")
        equal("C.1", "the newest version of both is spoken", set(engine.asked), {51})
        for name, minor, minimum, wanted in (("an older release", 41, 12, 41), ("a newer one that has dropped the version", 54, 44, 51),
                                             ("an older one again", 45, 24, 45)):
            engine.minor, engine.minimum, engine.asked = minor, minimum, []
            equal("C.1", f"{name} in the engine's place: the call is answered", kind_of(lambda: c.call("list")), None)
            equal("C.1", f"{name} in the engine's place: asked once more, under its version", engine.asked[-1], wanted)
            engine.asked = []
            c.call("list")
            equal("C.1", f"{name} in the engine's place: and what follows at once so", set(engine.asked), {wanted})
        engine.minor, engine.asked = 40, []
        equal("C.1", "one that is too old for us is told, not asked again and again",
              (kind_of(lambda: c.call("list")), len(engine.asked) < 6), ("invalid", True))
    engine.server.close()
    os.unlink(path)
    os.rmdir(scratch)


run(test_proxy_answers, test_replaced_engine, test_pull, test_faults)
done()
