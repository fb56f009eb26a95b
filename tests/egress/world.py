"""Two network namespaces: egressd and its clients in this one, the hosts that it may reach in the other.

The other side answers for whole blocks of public-looking addresses, so that nothing leaves the machine:

    11.22.33.0/24, 2a00:11::/64    answer (see origin.py)
    11.22.44.0/24                  never answer
    11.22.55.0/24                  no route to them
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import traceback

CLONE_NEWNET = 0x40000000
SKIP = 77

HERE = os.path.dirname(os.path.abspath(__file__))


def unshare_net():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def check_tools():
    if os.geteuid() != 0:
        skip("network namespaces need root")
    for program in ("ip", "openssl"):
        if shutil.which(program) is None:
            skip(f"{program} is not installed")


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL)


def build(directory):
    """Enters a namespace of our own and starts the other side; returns its process."""
    try:
        unshare_net()
    except OSError as e:
        skip(f"no network namespace of our own: {e}")
    ip("link", "set", "lo", "up")
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        other_side(directory, ready_w, go_r)
    os.close(ready_w)
    os.close(go_r)
    if os.read(ready_r, 1) != b"n":
        raise RuntimeError("the other namespace did not come up")
    ip("link", "add", "va", "type", "veth", "peer", "name", "vb", "netns", str(pid))
    ip("addr", "add", "10.99.0.1/24", "dev", "va")
    ip("-6", "addr", "add", "fd99::1/64", "dev", "va", "nodad")
    ip("link", "set", "va", "up")
    os.write(go_w, b"g")
    if os.read(ready_r, 1) != b"r":
        raise RuntimeError("the hosts did not come up")
    ip("route", "add", "default", "via", "10.99.0.2")
    ip("-6", "route", "add", "2a00::/12", "via", "fd99::2")
    ip("route", "add", "unreachable", "11.22.55.0/24")
    return pid


def other_side(directory, ready_w, go_r):
    import origin

    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        unshare_net()
        os.write(ready_w, b"n")
        os.read(go_r, 1)
        for words in (
            ["link", "set", "lo", "up"],
            ["addr", "add", "10.99.0.2/24", "dev", "vb"],
            ["-6", "addr", "add", "fd99::2/64", "dev", "vb", "nodad"],
            ["link", "set", "vb", "up"],
            ["route", "add", "local", "11.22.33.0/24", "dev", "lo"],
            ["route", "add", "blackhole", "11.22.44.0/24"],  # a machine that forwards would say "unreachable"
            ["-6", "route", "add", "local", "2a00:11::/64", "dev", "lo"],
        ):
            ip(*words)
        origin.start(directory)
        os.write(ready_w, b"r")
        signal.pause()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


@contextlib.contextmanager
def small_buffers():
    """What a socket of this namespace that is made meanwhile keeps for a reader that does not read: next to nothing."""
    paths = "/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_rmem"
    before = [pathlib.Path(path).read_text(encoding="ascii") for path in paths]
    try:
        for path in paths:
            pathlib.Path(path).write_text("4096 4096 4096", encoding="ascii")
        yield
    finally:
        for path, text in zip(paths, before):
            pathlib.Path(path).write_text(text, encoding="ascii")


def end(pid):
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
