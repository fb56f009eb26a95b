// What dockerode, the Node.js client, does through the proxy, in the forms that the sandbox policy takes: query and body given
// apart, no options where the client would put them into the query. Prints "STEP ok" lines; exits non-zero at the first failure.
'use strict'

const [, , modules, socket, image, name] = process.argv
const Docker = require(`${modules}/dockerode`)
const docker = new Docker({ socketPath: socket, version: 'v1.41' })
const label = { 'dev.capybara.sandbox': '1' }

function step (what) {
  console.log(`${what} ok`)
}

function collect (stream) {
  return new Promise((resolve, reject) => {
    const chunks = []
    stream.on('data', c => chunks.push(c))
    stream.on('end', () => resolve(Buffer.concat(chunks)))
    stream.on('error', reject)
  })
}

// Attached output without a terminal comes in frames of {stream, length, payload}.
function unframed (raw) {
  let text = ''
  while (raw.length >= 8) {
    const end = 8 + raw.readUInt32BE(4)
    text += raw.subarray(8, end)
    raw = raw.subarray(end)
  }
  return text
}

async function exec (container, options, input) {
  const e = await container.exec({ User: '1000:1000', AttachStdout: true, AttachStderr: true, ...options })
  const stream = await e.start({ _body: { Detach: false, Tty: false }, hijack: input !== undefined, stdin: input !== undefined })
  if (input !== undefined) {
    stream.write(input)
    stream.end()
  }
  const output = unframed(await collect(stream))
  return { output, code: (await e.inspect()).ExitCode }
}

function check (what, got, want) {
  if (JSON.stringify(got) !== JSON.stringify(want)) {
    throw new Error(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
  }
  step(what)
}

async function main () {
  check('ping', (await docker.ping()).toString(), 'OK')
  const container = await docker.createContainer({
    _query: { name },
    _body: {
      Image: image,
      Cmd: ['sleep', '300'],
      Labels: label,
      HostConfig: {
        CapDrop: ['ALL'],
        SecurityOpt: ['no-new-privileges'],
        ReadonlyRootfs: true,
        PidsLimit: 100,
        Memory: 67108864,
        NetworkMode: 'none'
      }
    }
  })
  step('create')
  await container.start()
  check('inspect', (await container.inspect()).Name, `/${name}`)
  check('exec', await exec(container, { Cmd: ['sh', '-c', 'id -u; exit 3'] }), { output: '1000\n', code: 3 })
  check('exec with input', await exec(container, { Cmd: ['cat'], AttachStdin: true }, 'hello'), { output: 'hello', code: 0 })
  const listed = await docker.listContainers({ all: true, filters: { label: ['dev.capybara.sandbox=1'] } })
  check('list', listed.some(c => c.Names.includes(`/${name}`)), true)
  const refused = await docker.createContainer({ _query: { name }, _body: { Image: image, HostConfig: { Privileged: true } } })
    .catch(e => [e.statusCode, /Privileged/.test(e.message)])
  check('privileged is refused', refused, [403, true])
  await container.kill()
  step('kill')
  await container.remove()
  check('gone', (await container.inspect().catch(e => e)).statusCode, 404)
}

main().catch(e => {
  console.error(e.message)
  process.exit(1)
})
