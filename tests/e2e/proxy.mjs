// Proxies between engramd and the remote: tinyproxy, and one that does what proxies do on bad days.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { client, good, stream, tls, upstream } from './lib/remote.mjs'
import { within } from './lib/engramd.mjs'

const trusting = { SSL_CERT_FILE: tls + 'authority.pem' }
const nobody = { http_proxy: '', https_proxy: '', HTTPS_PROXY: '', all_proxy: '', ALL_PROXY: '', no_proxy: '', NO_PROXY: '' }

async function free_port() {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

// Once it takes connections.
async function reachable(port, child) {
  const socket = net.connect(port, '127.0.0.1')
  const outcome = await Promise.race([once(socket, 'connect').then(() => true, () => false), once(child, 'exit').catch(() => {})])
  socket.destroy()
  return outcome === true || (child.exitCode === null && reachable(port, child))
}

async function tinyproxy(target_port) {
  const folder = mkdtempSync(join(tmpdir(), 'engramd-proxy-'))
  const port = await free_port()
  const log = join(folder, 'log')
  writeFileSync(join(folder, 'conf'), [`Port ${port}`, 'Listen 127.0.0.1', 'Allow 127.0.0.1', 'Timeout 60',
    'BasicAuth me secret', `ConnectPort ${target_port}`, `LogFile "${log}"`, 'LogLevel Connect'].join('\n') + '\n')
  const child = spawn('tinyproxy', ['-d', '-c', join(folder, 'conf')], { stdio: 'ignore' })
  child.on('error', () => {})  // told below
  after(() => child.kill())
  await within(reachable(port, child), 'tinyproxy (Debian: tinyproxy-bin)')
  assert.equal(child.exitCode, null, 'tinyproxy did not start; Debian: apt-get install tinyproxy-bin')
  return { port, log: () => readFileSync(log, 'utf8') }
}

test('tinyproxy: TLS through a tunnel, and plain HTTP, with a password', async () => {
  for (const secure of [true, false]) {
    const server = await upstream(stream(good), { secure })
    const proxy = await tinyproxy(server.address().port)
    const one = await client(server.url('localhost') + '/v1',
      { ...nobody, ...trusting, ENGRAMD_API_PROXY_ENV: 'MY_PROXY', MY_PROXY: `http://me:se%63ret@127.0.0.1:${proxy.port}` })
    for (let i = 0; i < 2; ++i) assert.equal((await one.chat({ route: 'remote' })).text, 'Paris')
    assert.equal(server.requests.length, 2)
    assert.equal(server.requests[0].headers['proxy-authorization'], undefined)
    assert.match(proxy.log(), secure ? /CONNECT localhost/ : /POST http:\/\/localhost/)
    await one.finish()
    const stranger = await client(server.url('localhost') + '/v1',
      { ...nobody, ...trusting, ENGRAMD_API_PROXY_ENV: 'MY_PROXY', MY_PROXY: `http://me:wrong-one@127.0.0.1:${proxy.port}` })
    const got = await stranger.chat({ route: 'remote' })
    assert.match(got.text, secure ? /wants a name and a password: HTTP 40[17]/ : /HTTP 40[17]/)
    await stranger.finish()
    assert.ok(!(stranger.raw + stranger.stderr).includes('wrong-one'))
    assert.equal(server.requests.length, 2)
  }
})

// A proxy that gives each CONNECT to `answer`, and counts them.
async function scripted(answer) {
  const proxy = net.createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (bytes) => {
      proxy.heads.push(bytes.toString())
      answer(socket)
    })
  }).listen(0, '127.0.0.1')
  proxy.heads = []
  await once(proxy, 'listening')
  proxy.url = `http://127.0.0.1:${proxy.address().port}`
  after(() => proxy.close())
  return proxy
}

test('HTTPS_PROXY: the proxy looks up the name, and TLS is with the remote', async () => {
  const server = await upstream(stream(good), { secure: true })
  const proxy = await scripted((socket) => {
    const beyond = net.connect(server.address().port, '127.0.0.1', () => {
      // In pieces, as a slow proxy does.
      socket.write('HTTP/1.1 200 Conn')
      socket.write('ection established\r\nVia: x\r\n\r\n')
      socket.pipe(beyond).pipe(socket)
    })
    beyond.on('error', () => socket.destroy())
  })
  const one = await client('https://remote.test/v1', { ...nobody, ...trusting, HTTPS_PROXY: proxy.url })
  assert.equal((await one.chat({ route: 'remote' })).text, 'Paris')
  assert.match(proxy.heads[0], /^CONNECT remote\.test:443 HTTP\/1\.1\r\nHost: remote\.test:443\r\n\r\n$/)
  assert.equal(server.requests[0].headers.host, 'remote.test')
  await one.finish()
})

const ill = [
  ['403', (socket) => socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno'), /does not let this through: HTTP 403/, 1],
  ['407', (socket) => socket.end('HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n'), /wants a name and a password: HTTP 407/, 1],
  ['502', (socket) => socket.end('HTTP/1.1 502 Bad\r\n\r\n'), /cannot reach the remote: HTTP 502/, 2],
  ['something that is not HTTP', (socket) => socket.end('SSH-2.0-x\r\n'), /not an HTTP answer/, 2],
  ['a closed connection', (socket) => socket.destroy(), /the proxy 127\.0\.0\.1:\d+: .* while asking it for remote\.test:443/, 2],
  ['silence', () => {}, /time-out while asking it for remote\.test:443/, 2, { ENGRAMD_API_TIMEOUT: '1' }],
]
for (const [name, answer, reason, tries, env] of ill) {
  test(`a proxy that is ill: ${name}`, async () => {
    const proxy = await scripted(answer)
    const one = await client('https://remote.test/v1',
      { ...nobody, HTTPS_PROXY: proxy.url, ENGRAMD_API_MAX_RETRIES: '1', ...env })
    const got = await one.chat({ model: 'big' })
    assert.equal(got.served_by, 'local', JSON.stringify(got))
    assert.match(got.fallback_reason, reason)
    assert.ok(proxy.heads.length <= tries, `${proxy.heads.length} tries`)
    assert.ok(proxy.heads.every((head) => head.startsWith('CONNECT ') && !head.includes('France')))
    await one.finish()
  })
}

test('a proxy that is not there is named; loopback needs none; one of an unknown kind is refused', async () => {
  const dead = `http://127.0.0.1:${await free_port()}`
  const one = await client('https://remote.test/v1', { ...nobody, HTTPS_PROXY: dead, ENGRAMD_API_MAX_RETRIES: '0' })
  assert.match((await one.chat({ route: 'remote' })).text, /the proxy 127\.0\.0\.1:\d+: Connection refused/)
  await one.finish()
  const server = await upstream(stream(good))
  const direct = await client(server.url(), { ...nobody, http_proxy: dead, https_proxy: dead, all_proxy: dead })
  assert.equal((await direct.chat({ route: 'remote' })).text, 'Paris')
  await direct.finish()
  const odd = await client('https://remote.test/v1', { ...nobody, ALL_PROXY: 'socks5://me:secret@127.0.0.1:1' })
  const got = await odd.chat({ route: 'remote' })
  assert.match(got.text, /socks5:\/\/ is not supported/)
  await odd.finish()
  assert.ok(!(odd.raw + odd.stderr).includes('secret'))
})
