#!/usr/bin/env python3
"""JSON-RPC 2.0 as it stands in its specification, the published document, and an independent client."""

import json
import os
import re
import socket
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403

N = f"cap-rp{os.getpid()}"


def once(text, wait=1, extra=()):
    """What serve answers to some bytes before its end of input; parsed lines and the exit status."""
    p = subprocess.run([CONTROLLER, "serve", *options(), *extra], input=text, capture_output=True, timeout=120)
    return [json.loads(line) for line in p.stdout.splitlines()], p.returncode


def code(message):
    return message["error"]["code"], message["id"], message["error"]["data"]["kind"]


def test_errors():
    cases = [
        (b"{", (-32700, None, "invalid")), (b"garbage", (-32700, None, "invalid")), (b'{"a":1,"a":2}', (-32700, None, "invalid")),
        (b'"\xff"', (-32700, None, "invalid")), (b"1", (-32600, None, "invalid")), (b"{}", (-32600, None, "invalid")),
        (b"[]", (-32600, None, "invalid")),
        (b'{"jsonrpc":"1.0","id":1,"method":"list"}', (-32600, None, "invalid")),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"list"}', (-32600, None, "invalid")),
        (b'{"jsonrpc":"2.0","id":1}', (-32600, 1, "invalid")),
        (b'{"jsonrpc":"2.0","id":"a","method":"nope"}', (-32601, "a", "invalid")),
        (b'{"jsonrpc":"2.0","id":2,"method":"exec","params":[1]}', (-32602, 2, "invalid")),
        (b'{"jsonrpc":"2.0","id":3,"method":"exec","params":{"id":"cap-a","x":1}}', (-32602, 3, "invalid")),
        (b'{"jsonrpc":"2.0","id":4,"method":"exec","params":{"id":"cap-a","stream":1}}', (-32602, 4, "invalid")),
        (b'{"jsonrpc":"2.0","id":5,"method":"create","params":{"name":"x"}}', (4, 5, "invalid")),
        (b'{"jsonrpc":"2.0","id":6,"method":"stat","params":{"id":"cap-none","path":"/"}}', (1, 6, "gone")),
    ]
    text = b"\n".join(c[0] for c in cases) + b'\n\n{"jsonrpc":"2.0","id":99,"method":"list"}\n'
    answers, status = once(text)
    equal("C.12", "serve ends at the end of its input", status, 0)
    errors = {json.dumps(m.get("id")): m for m in answers if m.get("id") is not None}
    anonymous = [m["error"]["code"] for m in answers if m.get("id") is None]
    equal("C.12", "requests without an id that can be told", sorted(anonymous),
          sorted(want[0] for _, want in cases if want[1] is None))
    for request, want in cases:
        if want[1] is not None:
            equal("C.12", f"error of {request.decode()}", code(errors[json.dumps(want[1])]), want)
    check("C.12", "and what follows is served", "result" in errors["99"])
    answers, _ = once(b'{"jsonrpc":"2.0","method":"list"}\n{"jsonrpc":"2.0","method":"nope"}\n')
    equal("C.12", "notifications are not answered", answers, [])


def test_batch():
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "list"}, {"jsonrpc": "2.0", "method": "list"}, 7,
             {"jsonrpc": "2.0", "id": "x", "method": "nope"}]
    answers, _ = once(json.dumps(batch).encode() + b"\n")
    equal("C.12", "a batch is one answer", [sorted(str(m["id"]) for m in a) for a in answers], [["1", "None", "x"]])
    answers, _ = once(json.dumps([{"jsonrpc": "2.0", "method": "list"}]).encode() + b"\n")
    equal("C.12", "a batch of notifications is not answered", answers, [])


def test_framing():
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
    p = subprocess.run([CONTROLLER, "serve", *options()], input=b"Content-Length: %d\r\n\r\n%s" % (len(body), body),
                       capture_output=True, timeout=60)
    m = re.fullmatch(rb"Content-Length: (\d+)\r\n\r\n(.*)", p.stdout, re.S)
    check("C.12", "Content-Length in, Content-Length out", m and int(m[1]) == len(m[2]) and
          json.loads(m[2])["result"]["protocol"] == "sandbox@1", p.stdout)
    with client() as c:
        limit = c.call("initialize")["limits"]["maxMessageBytes"]
        c.send_bytes(b'{"x":"' + b"a" * (limit + 10) + b'"}\n')
        equal("C.12", "a line over the stated limit is refused", code(c.answer(None)), (-32600, None, "invalid"))
        equal("C.12", "and the connection survives", c.call("initialize")["protocol"], "sandbox@1")
        c.send_bytes(b'{"jsonrpc":"2.0","id":"big","method":"nope","params":{"x":"' + b"a" * (1 << 20) + b'"}}\n')
        equal("C.12", "a line of 1 MiB is read", code(c.answer("big"))[0], -32601)


def validate(schema, value, where="result"):
    """A small JSON Schema check: what the document uses."""
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    t = schema.get("type")
    if t is not None:
        ts = t if isinstance(t, list) else [t]
        ok = any((x == "integer" and isinstance(value, int) and not isinstance(value, bool)) or
                 (x == "number" and isinstance(value, (int, float)) and not isinstance(value, bool)) or
                 (x in types and isinstance(value, types[x])) for x in ts)
        if not ok:
            return f"{where}: {value!r} is no {t}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        return f"{where}: {value!r} is not {schema['const']!r}"
    if isinstance(value, dict):
        for k in schema.get("required", []):
            if k not in value:
                return f"{where}: {k} is missing"
        for k, v in value.items():
            sub = schema.get("properties", {}).get(k, schema.get("additionalProperties", {}))
            if isinstance(sub, dict) and (e := validate(sub, v, f"{where}.{k}")):
                return e
    if isinstance(value, list) and "items" in schema:
        for i, v in enumerate(value):
            if e := validate(schema["items"], v, f"{where}[{i}]"):
                return e
    return None


def test_document():
    with client() as c:
        doc = c.call("rpc.discover")
        methods = {m["name"]: m for m in doc["methods"]}
        equal("C.12", "it is OpenRPC", doc["openrpc"][:2], "1.")
        for m in methods.values():
            good = m["paramStructure"] == "by-name" and "schema" in m["result"] and all(
                "schema" in p and p["name"] for p in m["params"])
            check("C.12", f"{m['name']} is described whole", good, m)
        calls = [("initialize", {}), ("create", {"name": N, "limits": {"egress": "none", "memoryMb": 128}}),
                 ("exec", {"id": N, "command": "echo x"}), ("writeFile", {"id": N, "path": "/workspace/a", "data": "1"}),
                 ("readFile", {"id": N, "path": "/workspace/a"}), ("stat", {"id": N, "path": "/workspace/a"}),
                 ("listFiles", {"id": N, "path": "/"}), ("removeFile", {"id": N, "path": "/workspace/a"}),
                 ("killAll", {"id": N}), ("killTagged", {"id": N, "tags": ["a"]}), ("list", {}), ("inspect", {"id": N}),
                 ("reconcile", {"id": N, "dryRun": True}), ("doctor", {}), ("suspend", {"id": N}), ("resume", {"id": N}),
                 ("destroy", {"id": N}), ("destroyByName", {"name": N})]
        for method, params in calls:
            result = c.call(method, **params)
            equal("C.12", f"{method}: the result is as the document says",
                  validate(methods[method]["result"]["schema"], result), None)
        c.call("create", name=N, limits={"egress": "none", "memoryMb": 128})
        i = c.start("exec", id=N, command="echo up; read x", tty=True, stream=True)
        c.wait_note(lambda m: m["params"].get("requestId") == i)
        for method, params in (("execResize", {"rows": 30, "cols": 90}), ("execInput", {"data": "x\n"})):
            calls.append((method, params))
            equal("C.12", f"{method}: the result is as the document says",
                  validate(methods[method]["result"]["schema"], c.call(method, requestId=i, **params)), None)
        equal("C.12", "an exec with a terminal: likewise", validate(methods["exec"]["result"]["schema"], c.wait(i)), None)
        c.call("destroy", id=N)
        untested = set(methods) - {m for m, _ in calls} - {"rpc.discover", "shutdown", "$/cancelRequest"}
        equal("C.12", "every method was called", untested, set())


def test_order_and_end():
    with client() as c:
        c.call("create", name=N, limits={"egress": "none", "memoryMb": 128})
        slow = c.start("exec", id=N, command="sleep 3; echo slow")
        fast = c.start("exec", id=N, command="echo fast")
        c.wait(fast)
        check("C.12", "answers come as they are ready", json.dumps(slow) not in c.answers)
        c.wait(slow)
    c = client(extra=["--eof-grace", "1"])
    c.start("exec", id=N, command="sleep 444")
    wait_for(lambda: "sleep 444" in processes(N))
    equal("C.12", "at the end of input running work is ended", c.close(), 0)
    check("C.12", "in the sandbox too", wait_for(lambda: "sleep 444" not in processes(N), 10))
    c = client()
    c.start("exec", id=N, command="sleep 445; echo late >/workspace/late", timeoutMs=4000)
    wait_for(lambda: "sleep 445" in processes(N))
    c.process.kill()
    check("A.lifecycle.8", "a command whose controller was killed ends at its own limit",
          wait_for(lambda: "sleep 445" not in processes(N), 40), processes(N))
    with client() as c:
        c.call("destroy", id=N)


def test_slow_reader():
    with client() as c:
        c.call("create", name=N, limits={"egress": "none", "memoryMb": 128})
        p = subprocess.Popen([CONTROLLER, "serve", *options()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
        request = {"jsonrpc": "2.0", "id": 1, "method": "exec",
                   "params": {"id": N, "command": "head -c 100000000 /dev/zero | tr '\\0' x", "stream": True}}
        p.stdin.write(json.dumps(request).encode() + b"\n")
        p.stdin.flush()
        wait_for(lambda: "head -c" in processes(N))
        time.sleep(1)
        with open(f"/proc/{p.pid}/status") as f:
            rss = int(re.search(r"RssAnon:\s+(\d+)", f.read())[1])
        check("C.12", "a client that does not read costs no memory without end", rss < 200000, f"{rss} KiB")
        equal("C.12", "and holds nobody up", c.call("exec", id=N, command="echo x")["stdout"], "x\n")
        p.kill()
        p.wait()
        c.call("killAll", id=N)
        c.call("destroy", id=N)


def test_socket():
    path = tempfile.mkdtemp() + "/s"
    p = subprocess.Popen([CONTROLLER, "serve", "--listen", "unix:" + path, *options()], stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(path))
    equal("C.12", "the socket is the owner's alone", os.stat(path).st_mode & 0o777, 0o600)
    clients = []
    for i in range(3):
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        s.sendall(b'{"jsonrpc":"2.0","id":%d,"method":"initialize"}\n' % i)
        clients.append(s)
    got = [json.loads(s.makefile().readline())["id"] for s in clients]
    equal("C.12", "many clients on a socket", got, [0, 1, 2])
    clients[0].close()
    clients[1].sendall(b'{"jsonrpc":"2.0","id":9,"method":"initialize"}\n')
    equal("C.12", "one that leaves does not end the others", json.loads(clients[1].makefile().readline())["id"], 9)
    p.terminate()
    equal("C.12", "SIGTERM ends it in order", p.wait(30), 0)
    for s in clients:
        s.close()


def test_node():
    where = os.path.join(TOP, "tests", "clients", "node")
    modules = os.environ.get("NODE_PATH") or os.path.join(BUILD, "node_modules")
    why = "" if shutil.which("node") else "no node on this machine (package nodejs)"
    if not why and not os.path.isdir(os.path.join(modules, "vscode-jsonrpc")):
        p = subprocess.run([os.path.join(where, "fetch"), BUILD], capture_output=True, text=True)
        why = p.stdout.strip() if p.returncode == 77 else ""
    if why:
        skip("C.12", "vscode-jsonrpc drives the contract", why)
        return
    p = subprocess.run(["node", os.path.join(where, "contract.js"), CONTROLLER, N, *options()], capture_output=True, text=True,
                       env=os.environ | {"NODE_PATH": modules}, timeout=300)
    for line in p.stdout.splitlines():
        if m := re.match(r"(not )?ok \d+ - (\S+): (.*)", line):
            check(m[2], m[3], m[1] is None, p.stdout + p.stderr)
    equal("C.12", "vscode-jsonrpc drives the contract", p.returncode, 0)


run(test_errors, test_batch, test_framing, test_document, test_order_and_end, test_slow_reader, test_socket, test_node)
done()
