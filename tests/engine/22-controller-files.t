#!/usr/bin/env python3
"""Files of a sandbox, both modes, both runtimes. Arguments as for 21-controller-exec.t."""

import base64
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from controller_suite import *  # noqa: E402,F403

N = f"cap-fl{os.getpid()}"
b64 = lambda b: base64.b64encode(b).decode()  # noqa: E731


class Suite:
    def __init__(self, runtime, mode):
        self.runtime, self.mode = runtime, mode
        self.where = f"{runtime}/{mode}"

    def is_(self, name, got, want):
        return equal("A.lifecycle.9", f"[{self.where}] {name}", got, want)

    def call(self, method, **k):
        return self.c.call(method, id=N, **k)

    def fails(self, name, kind, errno, method, **k):
        try:
            self.is_(name, self.call(method, **k), "an error")
        except RpcError as e:
            self.is_(name, (e.kind, e.data.get("errno")), (kind, errno))

    def run(self):
        with client(self.runtime, self.mode) as c:
            self.c = c
            try:
                c.call("create", name=N, limits={"egress": "none", "memoryMb": 256, "diskMb": 8})
                for test in (self.write_read, self.parts, self.special, self.names, self.links, self.listing, self.skills, self.full):
                    try:
                        test()
                    except Exception as e:  # noqa: BLE001 - reported
                        self.is_(f"{test.__name__} runs to its end", repr(e), "")
            finally:
                c.call("destroy", id=N)

    def write_read(self):
        p = "/workspace/a.txt"
        self.is_("write", self.call("writeFile", path=p, data="hällo\n"), {"size": 7})
        r = self.call("readFile", path=p)
        self.is_("read", (r["data"], r["encoding"], r["size"], r["truncated"]), ("hällo\n", "utf8", 7, False))
        s = self.call("stat", path=p)
        self.is_("stat", (s["exists"], s["type"], s["size"], s["mode"], s["uid"], s["gid"]), (True, "file", 7, 0o644, 1000, 1000))
        self.call("writeFile", path=p, data="x", mode=0o750)
        self.is_("mode", self.call("stat", path=p)["mode"], 0o750)
        self.call("writeFile", path=p, data="longer than before")
        self.is_("overwriting keeps the mode", (self.call("stat", path=p)["mode"], self.call("readFile", path=p)["data"]),
                 (0o750, "longer than before"))
        self.is_("append", self.call("writeFile", path=p, data="+", append=True)["size"], 19)
        self.fails("exclusive over something", "conflict", "EEXIST", "writeFile", path=p, data="", exclusive=True)
        self.is_("exclusive over nothing", self.call("writeFile", path=p + "2", data="1", exclusive=True), {"size": 1})
        self.is_("an empty file", (self.call("writeFile", path="/workspace/e", data=""), self.call("readFile", path="/workspace/e")
                 ["data"]), ({"size": 0}, ""))
        self.fails("no parent", "invalid", "ENOENT", "writeFile", path="/workspace/d/e/f", data="1")
        self.is_("with parents", self.call("writeFile", path="/workspace/d/e/f", data="1", makeParents=True), {"size": 1})
        data = os.urandom(3 << 20)
        self.call("writeFile", path="/workspace/big", data=b64(data), encoding="base64")
        got = b"".join(base64.b64decode(self.call("readFile", path="/workspace/big", offset=o, limit=1 << 20,
                                                  encoding="base64")["data"]) for o in range(0, 3 << 20, 1 << 20))
        self.is_("3 MiB of random bytes", got == data, True)
        self.is_("nothing temporary is left", [e["name"] for e in self.call("listFiles", path="/workspace")["entries"]
                 if e["name"].startswith(".capybara") and e["name"] != ".capybara-outcomes"], [])

    def parts(self):
        self.call("writeFile", path="/workspace/p", data="0123456789€")
        for offset, limit, want in ((0, 4, ("0123", True)), (4, 100, ("456789€", False)), (10, 3, ("€", False)), (13, 5, ("", False)),
                                    (99, 5, ("", False))):
            r = self.call("readFile", path="/workspace/p", offset=offset, limit=limit)
            self.is_(f"offset {offset} limit {limit}", (r["data"], r["truncated"], r["size"]), (*want, 13))
        self.is_("a cut character does not make text binary",
                 [self.call("readFile", path="/workspace/p", limit=n)[k] for n in (11, 12) for k in ("data", "encoding")],
                 ["0123456789", "utf8"] * 2)
        self.call("writeFile", path="/workspace/bin", data=b64(b"\xff\0\xfe"), encoding="base64")
        r = self.call("readFile", path="/workspace/bin")
        self.is_("what is not text is base64", (r["encoding"], r["data"]), ("base64", b64(b"\xff\0\xfe")))
        self.fails("and no text when text is asked for", "invalid", "EILSEQ", "readFile", path="/workspace/bin", encoding="utf8")
        self.fails("wrong base64", "invalid", "EINVAL", "writeFile", path="/workspace/x", data="?", encoding="base64")

    def special(self):
        self.c.call("exec", id=N, command="mkfifo /workspace/fifo; mkdir -p /workspace/dir; ln -s /dev/zero /workspace/zero")
        self.fails("a directory is not read", "invalid", "EISDIR", "readFile", path="/workspace")
        for path in ("/workspace/fifo", "/dev/zero", "/workspace/zero", "/dev/null"):
            self.fails(f"{path} is not read", "invalid", "EINVAL", "readFile", path=path)
        self.fails("a directory is not replaced", "invalid", "EISDIR", "writeFile", path="/workspace/dir", data="x")
        self.is_("/proc has content without size", self.call("readFile", path="/proc/self/status")["data"].startswith("Name:"), True)
        self.fails("what is not there", "invalid", "ENOENT", "readFile", path="/workspace/nope")
        self.fails("what is not to be seen", "denied", "EACCES", "readFile", path="/root/x")
        # gVisor looks at the directory's permissions first.
        self.fails("a read-only place", "denied", "EACCES" if self.runtime == "runsc" else "EROFS", "writeFile", path="/etc/x", data="x")
        self.fails("a file in the way", "invalid", "ENOTDIR", "readFile", path="/etc/passwd/x")
        self.fails("a relative path", "invalid", "EINVAL", "readFile", path="a")
        self.fails("a NUL", "invalid", "EINVAL", "stat", pathBase64=b64(b"/a\0b"))
        self.is_("stat of nothing is an answer", self.call("stat", path="/workspace/nope"), {"exists": False})
        self.is_("stat behind a file", self.call("stat", path="/etc/passwd/x"), {"exists": False})
        self.is_("stat of a fifo", self.call("stat", path="/workspace/fifo")["type"], "other")
        self.is_("stat of a directory", self.call("stat", path="/workspace/dir")["type"], "directory")

    def names(self):
        every = bytes(b for b in range(1, 256) if b != ord("/"))  # as long as a name can be
        for name in (b"sp ace", b"new\nline", b"quo'te\"$`\\", b"-rf", b"\xc3\xa4", b"\xff\xfe", b"*", b" ", every):
            where = {"pathBase64": b64(b"/workspace/names/" + name)}
            short = name[:12]
            self.is_(f"{short!r}: written", self.call("writeFile", data="n", makeParents=True, **where), {"size": 1})
            self.is_(f"{short!r}: read", self.call("readFile", **where)["data"], "n")
            self.is_(f"{short!r}: stat", self.call("stat", **where)["size"], 1)
        entries = self.call("listFiles", path="/workspace/names")["entries"]
        self.is_("list tells bytes that are no text apart", [sum("nameBase64" in e for e in entries), len(entries)], [2, 9])
        self.is_("and gives every byte back", b64(every) in [e.get("nameBase64") for e in entries], True)
        for name in (b"new\nline", b"-rf", b"\xff\xfe", every):
            self.is_(f"{name[:12]!r}: removed", self.call("removeFile", pathBase64=b64(b"/workspace/names/" + name)), {"removed": True})
        self.is_("only those", len(self.call("listFiles", path="/workspace/names")["entries"]), 5)

    def links(self):
        self.c.call("exec", id=N, command="cd /workspace; echo t >target; ln -s target link; ln -s nowhere broken; ln -s loop loop; "
                    "ln -s /etc/passwd out; ln -s /etc/shadow shadow")
        s = self.call("stat", path="/workspace/link")
        self.is_("stat does not follow", (s["type"], s["target"]), ("symlink", "target"))
        self.is_("but does when asked", self.call("stat", path="/workspace/link", follow=True)["type"], "file")
        self.is_("to nowhere", self.call("stat", path="/workspace/broken", follow=True), {"exists": False})
        self.is_("read follows", self.call("readFile", path="/workspace/link")["data"], "t\n")
        self.call("writeFile", path="/workspace/link", data="new")
        self.is_("write follows and keeps the link", (self.call("readFile", path="/workspace/target")["data"],
                 self.call("stat", path="/workspace/link")["type"]), ("new", "symlink"))
        self.fails("a loop", "invalid", "ELOOP", "readFile", path="/workspace/loop")
        self.is_("a link to what the user may not write",
                 kind_of(lambda: self.call("writeFile", path="/workspace/out", data="x")), "denied")
        self.call("removeFile", path="/workspace/link")
        self.is_("remove takes the link, not its target", self.call("stat", path="/workspace/target")["exists"], True)

    def listing(self):
        self.c.call("exec", id=N, command="mkdir /workspace/many; cd /workspace/many; touch {1..50}; mkdir sub; echo 1 >sub/f")
        r = self.call("listFiles", path="/workspace/many")
        self.is_("list", (len(r["entries"]), r["truncated"]), (51, False))
        r = self.call("listFiles", path="/workspace/many", limit=10)
        self.is_("list up to a limit", (len(r["entries"]), r["truncated"]), (10, True))
        self.fails("list of a file", "invalid", "ENOTDIR", "listFiles", path="/etc/passwd")
        self.fails("list of nothing", "invalid", "ENOENT", "listFiles", path="/nope")
        self.fails("list of what is closed", "denied", "EACCES", "listFiles", path="/root")
        self.fails("remove of a full directory", "conflict", "ENOTEMPTY", "removeFile", path="/workspace/many/sub")
        self.call("removeFile", path="/workspace/many", recursive=True)
        self.is_("recursive remove", self.call("stat", path="/workspace/many")["exists"], False)
        self.fails("remove of nothing", "invalid", "ENOENT", "removeFile", path="/workspace/many")

    def skills(self):
        self.is_("/skills is written", self.call("writeFile", path="/skills/s/SKILL.md", data="how", makeParents=True), {"size": 3})
        self.is_("and read as the sandbox user", self.call("readFile", path="/skills/s/SKILL.md")["data"], "how")
        r = self.c.call("exec", id=N, command="echo x >>/skills/s/SKILL.md")
        self.is_("but not written by it", r["exitCode"] != 0, True)
        self.is_("is root's", self.call("stat", path="/skills/s/SKILL.md")["uid"], 0)
        for path in ("/skills/../tmp/climbed", "/skills/s/../../tmp/climbed"):
            self.call("writeFile", path=path, data="x")
            self.is_(f"{path} is none of it, and the sandbox user's", self.call("stat", path="/tmp/climbed")["uid"], 1000)
            self.call("removeFile", path="/tmp/climbed")
        self.call("writeFile", path="/skills/s/..x", data="x")
        self.is_("a name that begins with dots is", self.call("stat", path="/skills/s/..x")["uid"], 0)
        self.is_("is removed", self.call("removeFile", path="/skills/s", recursive=True), {"removed": True})

    def full(self):
        if self.runtime == "runsc":
            skip("A.lifecycle.9", f"[{self.where}] a full disk", "gVisor's tmpfs of this release takes no size")
            return
        self.call("writeFile", path="/tmp/keep", data="old")
        self.c.call("exec", id=N, command="head -c 20m /dev/zero >/tmp/fill")
        self.fails("a full disk is told", "limit", "ENOSPC", "writeFile", path="/tmp/keep", data="x" * 100000)
        self.is_("and the old file is whole", self.call("readFile", path="/tmp/keep")["data"], "old")
        self.is_("commands run on a full /tmp", self.c.call("exec", id=N, command="echo up")["stdout"], "up\n")
        self.c.call("exec", id=N, command="rm /tmp/fill")


# runsc takes several times as long: it is run when asked for.
for pair in pairs(["runc/engine", "runc/runner"]):
    Suite(*pair.split("/")).run()
done()
