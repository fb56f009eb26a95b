// A small CONNECT and absolute-URL proxy in the way that it is usually written for Node: the yardstick for sandboxes' own proxies.
'use strict';
const http = require('http');
const net = require('net');
const agent = new http.Agent({ keepAlive: true });
const server = http.createServer((req, res) => {
  const url = new URL(req.url);
  const headers = { ...req.headers, host: url.host };
  delete headers['proxy-connection'];
  const out = http.request({ host: url.hostname, port: url.port || 80, path: url.pathname + url.search, method: req.method,
    headers, agent }, (answer) => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
  });
  out.on('error', () => res.destroy());
  req.pipe(out);
});
server.on('connect', (req, socket, head) => {
  const [host, port] = req.url.split(':');
  const out = net.connect(Number(port), host, () => {
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    out.write(head);
    out.pipe(socket);
    socket.pipe(out);
  });
  out.on('error', () => socket.destroy());
  socket.on('error', () => out.destroy());
});
server.listen(Number(process.argv[2]), '127.0.0.1');
