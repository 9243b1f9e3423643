// The daemon under everything at once for a while: chats that stream, MCP over HTTP and WebSocket,
// table edits, and clients that vanish in the middle of all of it. Nothing that is not expected, the
// other clients' answers unchanged, and memory that stays where it was after the warm-up.
//   node soak.mjs /path/to/engramd [--seconds 60]
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { import_or_skip, serve } from './lib/engramd.mjs'

const { WebSocket } = await import_or_skip('ws')
const flag = process.argv.indexOf('--seconds')
const seconds = flag < 0 ? 60 : Number(process.argv[flag + 1])
const warm_up_s = Math.min(20, seconds / 3)
// What is bounded but fills slowly: SQLite's page cache (16 MiB, about 1 KB an edit) and pages of the
// key-value cache that are touched for the first time. Ten minutes are about 150,000 calls.
const growth_bytes_max = 16 << 20

// Sessions of clients that vanish are kept, up to a limit: here one that the warm-up reaches.
const server = await serve(['--limits-http-sessions-max=64'])
const port = Number(new URL(server.url).port)
const deadline = performance.now() + seconds * 1e3
const counts = {}
const count = (what) => (counts[what] = (counts[what] ?? 0) + 1)
const random = (n) => Math.floor(Math.random() * n)

const post = (path, body, headers = {}, signal) => fetch(server.url + path, { method: 'POST', signal,
  headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
    ...server.headers, ...headers }, body: JSON.stringify(body) })
const question = { model: 'engram-nano', messages: [{ role: 'user', content: 'What is the capital of France?' }] }
const endless = { model: 'engram-nano', prompt: 'Once', max_tokens: 1500, stream: true, logit_bias: { 1: -100 } }

async function chat() {
  const answer = await post('/v1/chat/completions', { ...question, stream: true })
  assert.equal(answer.status, 200)
  const events = (await answer.text()).split('\n\n').filter(Boolean).map((event) => event.replace(/^data: /, ''))
  assert.equal(events.pop(), '[DONE]')
  const text = events.map((event) => JSON.parse(event).choices[0]?.delta.content ?? '').join('')
  assert.equal(text, 'The capital of France is Paris.')
  count('chats')
}

// Asks for a long answer, or only half of the question, and is gone.
function vanish() {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify(endless)
    const request = `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
      `Authorization: Bearer ${server.token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const socket = connect(port, '127.0.0.1')
    socket.on('error', reject).on('close', resolve).on('data', () => {})
    socket.write(random(4) ? request : request.slice(0, random(request.length)))
    setTimeout(() => random(2) ? socket.resetAndDestroy() : socket.destroy(), random(300))
    count('vanished')
  })
}

const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'soak', version: '1' } } }
const calls = [
  ['chat', { prompt: 'What is the capital of Japan?' }, /Tokyo/],
  ['engram_lookup', { text: 'The capital of France is' }, /France/],
  ['table_get', { text: ' capital of', layer: 1, head: 0 }, /./],
  ['gate_inspect', { text: 'The capital of France is', top: 3 }, /./],
  ['table_update', { edits: [{ text: ' of Spain is', operation: 'scale', factor: 1.01 }] }, /./],
  ['table_update', { edits: [{ text: ' of Spain is', operation: 'scale', factor: 0.99 }] }, /./],
]
const next_call = (id) => {
  const [name, args, wanted] = calls[random(calls.length)]
  return { wanted, name, message: { jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args } } }
}
function check({ wanted, name }, message) {
  assert.ok(message.result && !message.result.isError, `${name}: ${JSON.stringify(message).slice(0, 500)}`)
  assert.match(message.result.content[0].text, wanted)
  count(name)
}

// A session with a few calls; every third is left open.
async function session_over_http() {
  const opened = await post('/mcp', initialize)
  assert.equal(opened.status, 200)
  await opened.text()
  const session = { 'Mcp-Session-Id': opened.headers.get('mcp-session-id') }
  for (let id = 1; id < 6; ++id) {
    const call = next_call(id)
    const answer = await (await post('/mcp', call.message, session)).text()
    const data = answer.startsWith('{') ? answer : answer.split('\n').findLast((line) => line.startsWith('data: {')).slice(6)
    check(call, JSON.parse(data))
  }
  if (random(3) === 0) return
  const ended = await fetch(`${server.url}/mcp`, { method: 'DELETE', headers: { ...server.headers, ...session } })
  assert.equal(ended.status, 204)
}

// A connection with a few calls at the same time; every third is cut before they are answered.
function session_over_websocket() {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/mcp`, 'mcp', { headers: server.headers })
    const waiting = new Map()
    const cut = random(3) === 0
    socket.on('error', reject).on('close', () =>
      waiting.size === 0 || cut ? resolve() : reject(new Error('closed with calls unanswered')))
    socket.on('open', () => {
      socket.send(JSON.stringify(initialize))
      socket.send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }))
      for (let id = 1; id < 6; ++id) {
        const call = next_call(id)
        waiting.set(id, call)
        socket.send(JSON.stringify(call.message))
      }
      if (cut) setTimeout(() => socket.terminate(), random(100))
    })
    socket.on('message', (bytes) => {
      const message = JSON.parse(bytes)
      if (!waiting.has(message.id)) return
      try {
        check(waiting.get(message.id), message)
      } catch (error) {
        reject(error)
      }
      waiting.delete(message.id)
      if (waiting.size === 0) socket.close()
    })
  })
}

const resident_bytes = () =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1]) * 1024
const samples = []
const start = performance.now()
const sampling = setInterval(() =>
  samples.push({ at_s: (performance.now() - start) / 1e3, bytes: resident_bytes() }), 250)

async function again_and_again(client) {
  while (performance.now() < deadline) await client()
}
const clients = [chat, chat, vanish, vanish, session_over_http, session_over_http, session_over_websocket,
  session_over_websocket]
await Promise.all(clients.map(again_and_again))
clearInterval(sampling)

// The first after the warm-up against the last, by their largest: what comes and goes counts in both.
const largest = (from_s, to_s) =>
  Math.max(...samples.filter(({ at_s }) => at_s >= from_s && at_s < to_s).map(({ bytes }) => bytes))
const part_s = (seconds - warm_up_s) / 4
const before = largest(warm_up_s, warm_up_s + part_s)
const after = largest(seconds - part_s, Infinity)
const megabytes = (bytes) => (bytes / 1e6).toFixed(1)
console.log(`${seconds} s: ${JSON.stringify(counts)}`)
console.log(`resident: ${megabytes(samples[0].bytes)} MB at the start, ${megabytes(before)} MB after ${warm_up_s} s, ` +
  `${megabytes(after)} MB at the end`)

// Nobody is left behind.
const metric = async (name) => {
  const text = await (await fetch(`${server.url}/metrics`, { headers: server.headers })).text()
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)[1])
}
for (let i = 0; await metric('engramd_queue_running') + await metric('engramd_queue_waiting') > 0; ++i) {
  assert.ok(i < 2000, 'a sequence runs for nobody')
}
const { code, signal } = await server.stop()
assert.deepEqual({ code, signal }, { code: 0, signal: null })
assert.doesNotMatch(server.stderr, /\berror\b|critical/i)
assert.ok(after - before <= growth_bytes_max, `resident memory grew by ${megabytes(after - before)} MB`)
process.exit(0)
