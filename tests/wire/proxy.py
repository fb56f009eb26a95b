"""Starts dockerproxy in a directory of its own, waits until it serves, and stops it."""

import json
import os
import signal
import socket
import subprocess
import time

from client import Client

START_LIMIT = 30.0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Proxy:
    def __init__(self, program, directory, engine_path, settings):
        self.directory = directory
        self.unix = os.path.join(directory, "proxy.sock")
        self.tcp = ("127.0.0.1", free_port())
        self.audit = os.path.join(directory, "audit.log")
        config = {
            "listen": [{"unix": self.unix}, {"tcp": f"{self.tcp[0]}:{self.tcp[1]}"}],
            "upstream": {"unix": engine_path},
            "workers": settings.get("workers", 1),
            "audit": {"path": self.audit},
            "timeouts": {"drain": "1s"} | settings.get("timeouts", {}),
            "limits": settings.get("limits", {}),
            "mode": settings.get("mode", "enforce"),
        }
        if "tcpPolicy" in settings:
            policy = os.path.join(directory, "tcp-policy.json")
            with open(policy, "w", encoding="utf-8") as f:
                json.dump(settings["tcpPolicy"], f)
            config["listen"][1]["policy"] = policy
        if settings.get("tcpTls"):
            config["listen"][1]["tls"] = self._identity()
        path = os.path.join(directory, "dockerproxy.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        self.log = open(os.path.join(directory, "stderr"), "wb")
        self.process = subprocess.Popen([program, "--config", path], stdin=subprocess.DEVNULL, stderr=self.log)
        self._wait()

    def _identity(self):
        files = {name: os.path.join(self.directory, name) for name in ("cert", "key")}
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
            + ["-subj", "/CN=localhost", "-out", files["cert"], "-keyout", files["key"]],
            check=True,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return files

    def _wait(self):
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end and self.process.poll() is None:
            try:
                Client(self.unix).close()
                Client(self.tcp).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError(f"dockerproxy did not start:\n{self.stderr()}")

    def says(self, text, count=1):
        """Waits until the program's log holds the text so many times."""
        end = time.monotonic() + START_LIMIT
        while self.stderr().count(text) < count:
            if time.monotonic() > end:
                raise RuntimeError(f"the log does not say {text!r}:\n{self.stderr()}")
            time.sleep(0.02)

    def stderr(self):
        with open(self.log.name, "rb") as f:
            return f.read().decode("utf-8", "replace")

    def barrier(self):
        """Returns when the worker has done everything that it could do before now."""
        client = Client(self.unix)
        client.send(b"GET /v1.42/_ping HTTP/1.1\r\nHost: barrier\r\nConnection: close\r\n\r\n")
        answer = client.read_answer()
        client.close()
        if answer is None or answer.status != 200:
            raise RuntimeError("dockerproxy does not serve any more")

    def stop(self):
        """Returns what is wrong with the way it ended, or None."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(START_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "did not end on SIGTERM"
        self.log.close()
        text = self.stderr()
        if status != 0 or "Sanitizer" in text or "runtime error" in text:
            return f"ended with {status}:\n{text[-4000:]}"
        return None
