"""Real clients through egressd, against servers of the other namespace. One that is not installed is skipped."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile

import base
from dns import Zone

# npm's own copy, or Debian's package.
AGENTS = "/usr/lib/node_modules/npm/node_modules/https-proxy-agent", "/usr/share/nodejs/https-proxy-agent"


def needs(*programs):
    def decorate(test):
        def wrapped(self):
            for program in programs:
                if shutil.which(program) is None:
                    self.skipTest(f"{program} is not installed")
            test(self)

        wrapped.__name__ = test.__name__
        return wrapped

    return decorate


class Clients(base.Case):
    env = {"ALLOW_HOSTS": "files.test"}

    def setUp(self):
        super().setUp()
        self.dns.zones["files.test"] = Zone(["11.22.33.80"])
        self.home = os.path.join(base.directory, self.id().rpartition(".")[2])
        self.www = os.path.join(base.directory, "www")
        os.makedirs(self.home)
        self.write("hello", b"hello from files.test\n")
        proxy = f"http://127.0.0.1:{self.egressd.port}"
        self.ca = os.path.join(base.directory, "cert.pem")
        self.client_env = {
            "HOME": self.home, "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "http_proxy": proxy, "https_proxy": proxy,
            "HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1",
            "CURL_CA_BUNDLE": self.ca, "SSL_CERT_FILE": self.ca, "GIT_SSL_CAINFO": self.ca, "REQUESTS_CA_BUNDLE": self.ca,
            "PIP_CERT": self.ca, "NODE_EXTRA_CA_CERTS": self.ca, "npm_config_cafile": self.ca, "CARGO_HTTP_CAINFO": self.ca,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "GIT_CONFIG_NOSYSTEM": "1", "PYENV_VERSION": os.environ.get("PYENV_VERSION", ""),
            "PYENV_ROOT": os.environ.get("PYENV_ROOT", "/root/.pyenv"), "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", "/root/.rustup"),
            "npm_config_update_notifier": "false", "npm_config_fund": "false", "npm_config_audit": "false",
        }

    def write(self, name, data):
        path = os.path.join(self.www, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def run_client(self, *argv, good=True, cwd=None, **env):
        done = subprocess.run(argv, env={**self.client_env, **env}, cwd=cwd or self.home, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120, check=False)
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        self.assertEqual(done.returncode == 0, good, f"{argv}: {done.returncode}\n{text}\n{self.egressd.text()[-3000:]}")
        return text

    def methods(self):
        return [d["method"] for d in self.egressd.decisions() if d["decision"] == "allow"]

    @needs("curl")
    def test_curl(self):
        for url in ("http://files.test/hello", "https://files.test/hello", "https://FILES.test./hello"):
            self.assertIn("hello from", self.run_client("curl", "-sS", "--fail", url))
        self.assertIn("hello from", self.run_client("curl", "-sS", "--fail", "--http2", "http://files.test/hello"))
        self.assertIn("hello from", self.run_client("curl", "-sS", "--fail", "--http2", "https://files.test/hello"))
        self.assertIn("hello from", self.run_client("curl", "-sS", "--fail", "-p", "http://files.test/hello"))
        self.assertIn("host-not-allowed", self.run_client("curl", "-sS", "http://evil.test/"))
        self.assertIn("403", self.run_client("curl", "-sS", "https://evil.test/", good=False))

    @needs("wget")
    def test_wget(self):
        for url in ("http://files.test/hello", "https://files.test/hello"):
            self.assertIn("hello from", self.run_client("wget", "-qO-", f"--ca-certificate={self.ca}", url))
        self.assertIn("not on the allowlist", self.run_client("wget", "-O-", "http://evil.test/", good=False))

    @needs("git")
    def test_git(self):
        work = os.path.join(self.home, "work")
        bare = os.path.join(self.www, "repository.git")
        quiet = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        self.run_client("git", "init", "-q", work)
        with open(os.path.join(work, "file"), "wb") as f:
            f.write(os.urandom(3 << 20))
        self.run_client("git", *quiet, "add", "file", cwd=work)
        self.run_client("git", *quiet, "commit", "-qm", "first", cwd=work)
        self.run_client("git", "clone", "-q", "--bare", work, bare)
        self.run_client("git", "update-server-info", cwd=bare)
        self.run_client("git", "clone", "-q", "https://files.test/repository.git", "cloned")
        self.assertEqual(os.path.getsize(os.path.join(self.home, "cloned", "file")), 3 << 20)
        self.run_client("git", "clone", "-q", "https://evil.test/repository.git", "denied", good=False)

    @needs("python3")
    def test_python(self):
        code = "import urllib.request as u, sys; print(u.urlopen(sys.argv[1]).read().decode())"
        for url in ("http://files.test/hello", "https://files.test/hello"):
            self.assertIn("hello from", self.run_client("python3", "-c", code, url))
        text = self.run_client("python3", "-c", code, "https://evil.test/", good=False)
        self.assertIn("not on the allowlist", text)

    def test_python_requests(self):
        if subprocess.run(["python3", "-c", "import requests"], capture_output=True, check=False).returncode:
            self.skipTest("python3-requests is not installed")
        code = ("import requests, sys\ns = requests.Session()\n"
                "for _ in range(3): print(s.get('https://files.test/hello').text, s.get('http://files.test/hello').text)")
        self.assertEqual(self.run_client("python3", "-c", code).count("hello from"), 6)

    @needs("pip3")
    def test_pip(self):
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as z:
            z.writestr("sample_pkg/__init__.py", "")
            z.writestr("sample_pkg-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sample-pkg\nVersion: 1.0\n")
            z.writestr("sample_pkg-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            z.writestr("sample_pkg-1.0.dist-info/RECORD", "")
        name = "sample_pkg-1.0-py3-none-any.whl"
        self.write(f"simple/sample-pkg/{name}", wheel.getvalue())
        self.write("simple/sample-pkg/index.html", f'<a href="{name}">{name}</a>'.encode())
        self.run_client("pip3", "download", "-q", "--no-deps", "--index-url", "https://files.test/simple", "sample-pkg")
        self.assertTrue(os.path.exists(os.path.join(self.home, name)))
        self.assertIn("CONNECT", self.methods())

    @needs("npm")
    def test_npm(self):
        package = io.BytesIO()
        with tarfile.open(fileobj=package, mode="w:gz") as t:
            text = json.dumps({"name": "sample", "version": "1.0.0"}).encode()
            info = tarfile.TarInfo("package/package.json")
            info.size = len(text)
            t.addfile(info, io.BytesIO(text))
        data = package.getvalue()
        self.write("npm/sample-1.0.0.tgz", data)
        self.write("npm/sample", json.dumps({"name": "sample", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
            "name": "sample", "version": "1.0.0", "dist": {"tarball": "https://files.test/npm/sample-1.0.0.tgz",
                                                           "shasum": hashlib.sha1(data).hexdigest()}}}}).encode())
        self.run_client("npm", "install", "--silent", "--no-package-lock", "--registry=https://files.test/npm/", "sample")
        self.assertTrue(os.path.exists(os.path.join(self.home, "node_modules/sample/package.json")))

    @needs("node")
    def test_node_with_a_proxy_agent(self):
        agents = [p for p in AGENTS if os.path.isdir(p)]
        if not agents:
            self.skipTest("https-proxy-agent is not installed")
        code = (f"const {{HttpsProxyAgent}} = require({json.dumps(agents[0])});"
                "const agent = new HttpsProxyAgent(process.env.https_proxy);"
                "require('https').get('https://files.test/hello', {agent}, r => r.pipe(process.stdout))"
                ".on('error', e => { console.error(e.message); process.exit(1); });")
        self.assertIn("hello from", self.run_client("node", "-e", code))

    @needs("java")
    def test_java(self):
        if not shutil.which("javac") or not shutil.which("keytool"):
            self.skipTest("no JDK is installed")
        store = os.path.join(self.home, "trust")
        self.run_client("keytool", "-importcert", "-noprompt", "-alias", "t", "-file", self.ca, "-keystore", store,
                        "-storepass", "changeit")
        source = os.path.join(self.home, "Get.java")
        with open(source, "w", encoding="ascii") as f:
            f.write("public class Get { public static void main(String[] a) throws Exception {"
                    " System.out.write(new java.net.URL(a[0]).openStream().readAllBytes()); System.out.flush(); } }")
        proxy = ["-Dhttp.proxyHost=127.0.0.1", f"-Dhttp.proxyPort={self.egressd.port}", "-Dhttps.proxyHost=127.0.0.1",
                 f"-Dhttps.proxyPort={self.egressd.port}", f"-Djavax.net.ssl.trustStore={store}",
                 "-Djavax.net.ssl.trustStorePassword=changeit"]
        for url in ("http://files.test/hello", "https://files.test/hello"):
            self.assertIn("hello from", self.run_client("java", *proxy, source, url))
        text = self.run_client("java", *proxy, source, "https://evil.test/", good=False)
        self.assertIn("403", text)

    @needs("apt-get", "dpkg-deb")
    def test_apt(self):
        tree = os.path.join(self.home, "sample")
        os.makedirs(os.path.join(tree, "DEBIAN"))
        with open(os.path.join(tree, "DEBIAN", "control"), "w", encoding="ascii") as f:
            f.write("Package: sample\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.org>\nDescription: sample\n")
        deb = os.path.join(self.www, "debian", "sample.deb")
        os.makedirs(os.path.dirname(deb))
        self.run_client("dpkg-deb", "--root-owner-group", "-b", tree, deb)
        with open(deb, "rb") as f:
            data = f.read()
        with open(os.path.join(tree, "DEBIAN", "control"), "rb") as f:
            entry = f.read() + (f"Filename: ./sample.deb\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
                                ).encode()
        self.write("debian/Packages", entry)
        for name in ("lists/partial", "cache/archives/partial", "state", "etc/apt.conf.d", "etc/preferences.d", "etc/trusted.gpg.d"):
            os.makedirs(os.path.join(self.home, name))
        for scheme in ("http", "https"):
            with open(os.path.join(self.home, "sources"), "w", encoding="ascii") as f:
                f.write(f"deb [trusted=yes] {scheme}://files.test/debian ./\n")
            options = [word for o in (
                f"Dir::Etc={self.home}/etc", f"Dir::Etc::SourceList={self.home}/sources", f"Dir::Etc::SourceParts=-",
                f"Dir::State={self.home}/state", f"Dir::State::Lists={self.home}/lists", f"Dir::Cache={self.home}/cache",
                "Dir::State::Status=/dev/null", "APT::Sandbox::User=root", f"Acquire::https::CaInfo={self.ca}",
                "Acquire::Languages=none", f"Acquire::http::Proxy={self.client_env['http_proxy']}",
                f"Acquire::https::Proxy={self.client_env['http_proxy']}",
            ) for word in ("-o", o)]
            self.run_client("apt-get", *options, "-q", "update", APT_CONFIG="/dev/null")
            self.run_client("apt-get", *options, "-q", "download", "sample", APT_CONFIG="/dev/null")
            os.unlink(os.path.join(self.home, "sample_1.0_all.deb"))
        self.assertIn("GET", self.methods())

    @needs("cargo")
    def test_cargo(self):
        words = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False, env=self.client_env).stdout.split()
        if len(words) < 2 or [int(n) for n in words[1].split(".")[:2]] < [1, 68]:
            self.skipTest("this cargo reads no index over HTTP")
        crate = io.BytesIO()
        with tarfile.open(fileobj=crate, mode="w:gz") as t:
            for name, text in (("Cargo.toml", b'[package]\nname = "sample"\nversion = "1.0.0"\nedition = "2021"\n'),
                               ("src/lib.rs", b"")):
                info = tarfile.TarInfo(f"sample-1.0.0/{name}")
                info.size = len(text)
                t.addfile(info, io.BytesIO(text))
        data = crate.getvalue()
        self.write("crates/config.json", b'{"dl": "https://files.test/crates/dl/{crate}-{version}.crate"}')
        self.write("crates/sa/mp/sample", json.dumps({"name": "sample", "vers": "1.0.0", "deps": [], "features": {},
                                                      "cksum": hashlib.sha256(data).hexdigest(), "yanked": False}).encode() + b"\n")
        self.write("crates/dl/sample-1.0.0.crate", data)
        project = os.path.join(self.home, "project")
        os.makedirs(os.path.join(project, "src"))
        os.makedirs(os.path.join(project, ".cargo"))
        for name, text in (("Cargo.toml", '[package]\nname = "p"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\n'
                                          'sample = { version = "1", registry = "ours" }\n'),
                           ("src/main.rs", "fn main() {}\n"),
                           (".cargo/config.toml", '[registries.ours]\nindex = "sparse+https://files.test/crates/"\n')):
            with open(os.path.join(project, name), "w", encoding="ascii") as f:
                f.write(text)
        self.run_client("cargo", "fetch", "-q", cwd=project, CARGO_HOME=os.path.join(self.home, "cargo"))
