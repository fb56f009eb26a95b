// Drives the whole of sandbox@1 by vscode-jsonrpc, an independent client that frames by Content-Length. Prints TAP.
//
//   node contract.js CONTROLLER NAME [OPTION...]      OPTIONs go to `controller serve`
"use strict";
const { spawn } = require("child_process");
const rpc = require("vscode-jsonrpc/node");

const [program, name, ...options] = process.argv.slice(2);
let count = 0, failed = 0;

function equal(what, got, want) {
	const good = JSON.stringify(got) === JSON.stringify(want);
	console.log(`${good ? "ok" : "not ok"} ${++count} - C.12: [vscode-jsonrpc] ${what}`);
	if (!good) {
		failed++;
		console.log(`# got:  ${JSON.stringify(got)}\n# want: ${JSON.stringify(want)}`);
	}
}

async function main() {
	const child = spawn(program, ["serve", ...options], { stdio: ["pipe", "pipe", "inherit"] });
	const exited = new Promise((resolve) => child.on("exit", resolve));
	const c = rpc.createMessageConnection(new rpc.StreamMessageReader(child.stdout), new rpc.StreamMessageWriter(child.stdin));
	const output = [], driven = new Set(["$/cancelRequest"]);
	const send = c.sendRequest.bind(c);
	c.sendRequest = (method, ...rest) => (driven.add(method), send(method, ...rest));
	c.onNotification("exec/output", (p) => output.push(p));
	c.listen();

	const hello = await c.sendRequest("initialize", {});
	equal("initialize", hello.protocol, "sandbox@1");
	equal("capabilities", hello.capabilities.concurrentExec && hello.capabilities.killTagged, true);
	const doc = await c.sendRequest("rpc.discover", {});
	equal("rpc.discover", doc.methods.some((m) => m.name === "exec"), true);
	equal("create", await c.sendRequest("create", { name, limits: { egress: "none", memoryMb: 128 } }),
		{ id: name, state: "running" });
	const r = await c.sendRequest("exec", { id: name, command: "echo hé; echo err >&2; exit 3" });
	equal("exec", [r.stdout, r.stderr, r.exitCode, r.signal], ["hé\n", "err\n", 3, null]);
	const all = await Promise.all([1, 2, 3].map((n) => c.sendRequest("exec", { id: name, command: `echo ${n}` })));
	equal("three at once", all.map((x) => x.stdout), ["1\n", "2\n", "3\n"]);
	await c.sendRequest("exec", { id: name, command: "echo streamed", stream: true });
	equal("exec/output", output.map((o) => [o.stream, o.data]), [["stdout", "streamed\n"]]);

	// Input and size go to a command by its request's id, which the library keeps to itself: the first output tells it.
	const told = async (text) => {
		for (;;) {
			const found = output.find((o) => o.data.includes(text));
			if (found) return found.requestId;
			await new Promise((resolve) => setTimeout(resolve, 20));
		}
	};
	// A new size reaches the terminal by a way of its own, maybe after the line.
	const command = "stty size; read x; echo got $x; for i in {1..100}; do stty size | grep '41 83' && break; sleep 0.1; done";
	const talk = c.sendRequest("exec", { id: name, command, tty: true, stream: true, rows: 30, cols: 100 });
	const requestId = await told("30 100");
	await c.sendRequest("execResize", { requestId, rows: 41, cols: 83 });
	await c.sendRequest("execInput", { requestId, data: "line\n" });
	equal("execInput", (await talk).exitCode, 0);
	equal("its answer", output.some((o) => o.data.includes("got line")), true);
	equal("execResize", output.some((o) => o.data.includes("41 83")), true);

	const tagged = c.sendRequest("exec", { id: name, command: "echo tagged; sleep 100", tag: "t", stream: true });
	await told("tagged");
	equal("killTagged", (await c.sendRequest("killTagged", { id: name, tags: ["t"] })).killed, 1);
	equal("the killed one's answer", (await tagged).signal, "SIGKILL");

	const stop = new rpc.CancellationTokenSource();
	const long = c.sendRequest("exec", { id: name, command: "sleep 100" }, stop.token);
	setTimeout(() => stop.cancel(), 500);
	const ended = await long.catch((e) => ({ aborted: e.data && e.data.kind === "aborted" }));
	equal("$/cancelRequest", ended.aborted, true);

	await c.sendRequest("writeFile", { id: name, path: "/workspace/a/b", data: "AAE=", encoding: "base64", makeParents: true });
	equal("readFile", (await c.sendRequest("readFile", { id: name, path: "/workspace/a/b" })).data, "AAE=");
	equal("stat", (await c.sendRequest("stat", { id: name, path: "/workspace/a/b" })).size, 2);
	equal("listFiles", (await c.sendRequest("listFiles", { id: name, path: "/workspace/a" })).entries.map((e) => e.name), ["b"]);
	await c.sendRequest("removeFile", { id: name, path: "/workspace/a", recursive: true });
	equal("removeFile", await c.sendRequest("stat", { id: name, path: "/workspace/a" }), { exists: false });
	equal("killAll", (await c.sendRequest("killAll", { id: name })).killed, 0);
	equal("suspend", (await c.sendRequest("suspend", { id: name })).state, "suspended");
	equal("resume", (await c.sendRequest("resume", { id: name })).state, "running");
	equal("list", (await c.sendRequest("list", {})).sandboxes.filter((s) => s.name === name).map((s) => s.state), ["running"]);
	equal("inspect", (await c.sendRequest("inspect", { id: name })).egress, "none");
	equal("reconcile", (await c.sendRequest("reconcile", { id: name, dryRun: true })).sandboxes.map((s) => s.action), ["none"]);
	equal("doctor", (await c.sendRequest("doctor", {})).checks.every((x) => x.status !== "fail"), true);
	equal("destroyByName of another", (await c.sendRequest("destroyByName", { name: `${name}-none` })).state, "gone");
	equal("destroy", (await c.sendRequest("destroy", { id: name })).state, "gone");
	const gone = await c.sendRequest("exec", { id: name, command: "x" }).catch((e) => e);
	equal("an error carries its kind", gone.data && gone.data.kind, "gone");
	const unknown = await c.sendRequest("nope", {}).catch((e) => e);
	equal("an unknown method", unknown.code, -32601);
	const named = doc.methods.map((m) => m.name).filter((m) => !driven.has(m));
	equal("every method was driven", named, ["shutdown"]);
	await c.sendRequest("shutdown");
	equal("shutdown ends the controller", await exited, 0);
	console.log(`1..${count}`);
	process.exit(failed ? 1 : 0);
}

main().catch((e) => {
	console.log(`not ok ${++count} - C.12: [vscode-jsonrpc] runs to its end\n# ${e.stack}`);
	process.exit(1);
});
