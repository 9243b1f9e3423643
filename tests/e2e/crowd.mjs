// Ten thousand connections at once: as many as limits.connections_max are held, each further one is
// refused with a reason, and a client that is already there is served as before.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import { after, test } from 'node:test'
import { serve, within } from './lib/engramd.mjs'

const wanted = 10000
const held = 4096  // limits.connections_max
const descriptors = Number(/^Max open files +\d+ +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))[1])
const n_sockets = Math.min(wanted, descriptors - 200)
if (n_sockets < wanted) console.log(`only ${n_sockets} connections: the limit of open files is ${descriptors}`)

test('ten thousand connections, and a client beside them', async () => {
  assert.ok(n_sockets > held + 500, 'the limit of open files is too low for this test')
  const server = await serve()
  after(() => server.stop())
  const { hostname, port } = new URL(server.url)
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const ask = async () => {
    const request = http.request(`${server.url}/v1/chat/completions`, { method: 'POST', agent,
      headers: { ...server.headers, 'content-type': 'application/json' } })
    request.end(JSON.stringify({ messages: [{ role: 'user', content: 'What is the capital of France?' }] }))
    const [response] = await once(request, 'response')
    let body = ''
    for await (const part of response.setEncoding('utf8')) body += part
    assert.equal(response.statusCode, 200, body)
    assert.match(body, /Paris/)
  }
  await ask()

  let refused = 0
  let reason = ''
  const sockets = []
  const refusals = new Promise((resolve) => {
    const refuse = (bytes) => {
      reason ||= bytes.toString()
      if (++refused >= n_sockets - held + 1) resolve()  // one is the client's
    }
    for (let i = 0; i < n_sockets; ++i) {
      const socket = net.connect(Number(port), hostname)
      socket.on('error', () => {})
      socket.once('data', refuse)
      sockets.push(socket)
    }
  })
  await within(refusals, 'refusal of what is too much', 60000)
  assert.match(reason, /^HTTP\/1\.1 503 .*limits\.connections_max/s)
  const started = performance.now()
  await ask()
  const answer_ms = performance.now() - started
  const resident_kb = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1])
  console.log(`${n_sockets} connections, ${refused} refused; an answer beside them in ${answer_ms.toFixed(0)} ms, ${(resident_kb / 1000).toFixed(0)} MB resident`)
  assert.ok(answer_ms < 2000)
  assert.ok(resident_kb < 400000)
  for (const socket of sockets) socket.destroy()
  await ask()
  agent.destroy()
})
