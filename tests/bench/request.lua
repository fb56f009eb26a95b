-- wrk script: one of the requests of tests/bench/run, named by its argument. The body is the one that the controller sends.
local body = [[{"Image":"capybara-sandbox:latest","User":"0:0","Cmd":["sleep","infinity"],"WorkingDir":"/workspace",]] ..
	[["Env":["HTTP_PROXY=http://cap-c1-egress:3128","NO_PROXY=localhost,127.0.0.1,::1"],]] ..
	[["Labels":{"dev.capybara.sandbox":"1","dev.capybara.sandbox.name":"cap-c1"},]] ..
	[["HostConfig":{"Init":true,"CapDrop":["ALL"],"SecurityOpt":["no-new-privileges"],"ReadonlyRootfs":true,]] ..
	[["PidsLimit":1024,"IpcMode":"private","NanoCpus":1000000000,"Memory":2147483648,"MemorySwap":2147483648,]] ..
	[["Runtime":"runc","NetworkMode":"cap-c1-net","Tmpfs":{"/tmp":"rw,nosuid,nodev,size=1073741824"},]] ..
	[["Mounts":[{"Type":"volume","Source":"cap-c1-workspace","Target":"/workspace"},]] ..
	[[{"Type":"volume","Source":"cap-c1-skills","Target":"/skills","ReadOnly":true},]] ..
	[[{"Type":"volume","Source":"cap-c1-skills","Target":"/opt/capybara/skills"}]},]] ..
	[["NetworkingConfig":{"EndpointsConfig":{"cap-c1-net":{}}}}]]

local requests = {
	ping = { "GET", "/_ping" },
	inspect = { "GET", "/v1.41/containers/cap-c1/json" },
	create = { "POST", "/v1.41/containers/create?name=cap-c1", body },
	denied = { "POST", "/v1.41/containers/create?name=cap-c1", (body:gsub('"Init":true', '"Privileged":true')) },
}

function init(args)
	local r = requests[args[1]]
	wrk.method, wrk.path, wrk.body = r[1], r[2], r[3]
	if r[3] then
		wrk.headers["Content-Type"] = "application/json"
	end
end

function done(summary, latency, _)
	io.write(string.format("RESULT %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(99),
		summary.errors.status))
end
