// What a call costs beside the official TypeScript SDK's server: the same tool on both sides, in one
// run and in turns, over stdio, Streamable HTTP and WebSocket. A measurement, no test:
//   node load.mjs /path/to/engramd [seconds per figure, default 2]
// Then, how long eight chats at the same time take against the same eight in a row.
// The client is this Node process in all cases, with hand-written framing: its own cost is small, the
// same for all, and part of every figure.
import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { binary, import_or_skip, serve } from './lib/engramd.mjs'

const { WebSocket } = await import_or_skip('ws')
await import_or_skip('@modelcontextprotocol/sdk/server/mcp.js')
const seconds = Number(process.argv[3] ?? 2)
const n_rounds = 3
const n_connections = 16
const n_pipelined = 16
const sdk_server = fileURLToPath(new URL('load/sdk_server.mjs', import.meta.url))

const rpc = (message) => JSON.stringify({ jsonrpc: '2.0', ...message })
const initialize = rpc({ id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {},
  clientInfo: { name: 'load', version: '1' } } })
const initialized = rpc({ method: 'notifications/initialized' })
let last_id = 0
const next_call = () => rpc({ id: ++last_id, method: 'tools/call', params: { name: 'test_simple_text', arguments: {} } })
const next_ping = () => rpc({ id: ++last_id, method: 'ping' })

// Answers come in the order of the calls: all calls are alike. Notifications may come between.
class InOrder {
  waiting = []
  message(text) { if (text.includes('"id":')) this.answer(text) }
  answer(text) { this.waiting.shift()(text) }
  ask(text) {
    this.write(text)
    return new Promise((resolve) => this.waiting.push(resolve))
  }
  async call() {
    const text = await this.ask(this.request())
    if (!text.includes(this.expected)) throw new Error(`unexpected: ${text}`)
  }
  request = next_call
  expected = 'This is a simple text response for testing.'
}

class Lines extends InOrder {
  rest = ''
  constructor(input, output) {
    super()
    this.write = (text) => input.write(text + '\n')
    output.setEncoding('utf8').on('data', (text) => {
      const lines = (this.rest + text).split('\n')
      this.rest = lines.pop()
      for (const line of lines) this.message(line)
    })
  }
}

// HTTP/1.1 on one kept connection.
class Http extends InOrder {
  rest = ''
  constructor(port, headers) {
    super()
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.head = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Type: application/json\r\n` +
      'Accept: application/json, text/event-stream\r\n' +
      Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join('')
    this.write = (body) => this.socket.write(`${this.head}Content-Length: ${body.length}\r\n\r\n${body}`)
    this.socket.setEncoding('latin1').on('data', (text) => {
      this.rest += text
      if (!this.is_whole()) return
      const whole = this.rest
      this.rest = ''
      this.answer(whole)
    })
    this.socket.on('close', () => this.waiting.length && this.answer('closed'))
  }
  is_whole() {
    const end = this.rest.indexOf('\r\n\r\n')
    if (end < 0) return false
    const length = /content-length: (\d+)/i.exec(this.rest)
    if (length) return this.rest.length - end - 4 >= Number(length[1])
    return !/transfer-encoding: chunked/i.test(this.rest) || this.rest.endsWith('\r\n0\r\n\r\n')
  }
  close() { this.socket.destroy() }
}

class Frames extends InOrder {
  constructor(url) {
    super()
    this.socket = new WebSocket(url, 'mcp', { perMessageDeflate: false })
    this.write = (text) => this.socket.send(text)
    this.socket.on('message', (bytes) => this.message(bytes.toString()))
    this.open = new Promise((resolve, reject) => this.socket.on('open', resolve).on('error', reject))
  }
  close() { this.socket.terminate() }
}

// Each gives a function that opens a channel ready for calls, and one that ends the server.
const over_lines = (command, args, ping = false) => async () => {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] })
  const channel = new Lines(child.stdin, child.stdout)
  channel.close = () => child.kill('SIGKILL')
  await channel.ask(initialize)
  channel.write(initialized)
  if (ping) Object.assign(channel, { request: next_ping, expected: '"result":{}' })
  return channel
}
const over_http = (port) => async () => {
  const opening = new Http(port, {})
  const session = /mcp-session-id: (\S+)/i.exec(await opening.ask(initialize))[1]
  opening.close()
  const channel = new Http(port, { 'Mcp-Session-Id': session, 'MCP-Protocol-Version': '2025-11-25' })
  await channel.ask(initialized)
  return channel
}
const over_websocket = (port) => async () => {
  const channel = new Frames(`ws://127.0.0.1:${port}/mcp`)
  await channel.open
  await channel.ask(initialize)
  channel.write(initialized)
  return channel
}

async function sdk_port(how) {
  const child = spawn(process.execPath, [sdk_server, how], { stdio: ['ignore', 'pipe', 'inherit'] })
  process.on('exit', () => child.kill('SIGKILL'))
  return Number(await new Promise((resolve) => child.stdout.once('data', resolve)))
}

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
const median = (values) => at([...values].sort((a, b) => a - b), 0.5)

async function round_trips(channel) {
  const microseconds = []
  for (const end = performance.now() + seconds * 1e3; performance.now() < end;) {
    const start = process.hrtime.bigint()
    await channel.call()
    microseconds.push(Number(process.hrtime.bigint() - start) / 1e3)
  }
  microseconds.sort((a, b) => a - b)
  return { p50: at(microseconds, 0.5), p99: at(microseconds, 0.99) }
}

async function calls_per_second(channels, depth) {
  let n = 0
  const start = performance.now()
  const one = async (channel) => {
    while (performance.now() - start < seconds * 1e3) {
      await channel.call()
      ++n
    }
  }
  await Promise.all(channels.flatMap((channel) => Array.from({ length: depth }, () => one(channel))))
  return n / (performance.now() - start) * 1e3
}

async function measure({ open, pipelined }) {
  const first = await open()
  await calls_per_second([first], 1) // warm
  const latency = await round_trips(first)
  const channels = [first]
  while (!pipelined && channels.length < n_connections) channels.push(await open())
  const throughput = await calls_per_second(channels, pipelined ? n_pipelined : 1)
  for (const channel of channels) channel.close()
  return { ...latency, throughput }
}

const server = await serve(['--conformance', '--no-auth'])
const port = Number(new URL(server.url).port)
const arms = [
  // The tool is the daemon's; in one process there is ping.
  ['stdio, ping', 'engramd --standalone', { open: over_lines(binary, ['--stdio', '--standalone'], true), pipelined: true }],
  ['stdio, ping', 'SDK', { open: over_lines(process.execPath, [sdk_server, 'stdio'], true), pipelined: true }],
  ['stdio', 'engramd, attached to its daemon', { open: over_lines(binary, ['--stdio']), pipelined: true }],
  ['stdio', 'SDK', { open: over_lines(process.execPath, [sdk_server, 'stdio']), pipelined: true }],
  ['HTTP', 'engramd', { open: over_http(port) }],
  ['HTTP', 'SDK', { open: over_http(await sdk_port('http')) }],
  ['HTTP', 'SDK, JSON answers', { open: over_http(await sdk_port('http-json')) }],
  ['WebSocket', 'engramd', { open: over_websocket(port) }],
  ['WebSocket', 'SDK behind ws', { open: over_websocket(await sdk_port('ws')) }],
]
const results = arms.map(() => [])
console.log(`load of the machine at the start: ${loadavg().map((load) => load.toFixed(2)).join(' ')}`)
for (let round = 0; round < n_rounds; ++round) {
  for (const [i, arm] of arms.entries()) results[i].push(await measure(arm[2]))
}
console.log(`\n| transport | server | round trip p50, us | p99, us | calls/s |\n| --- | --- | --- | --- | --- |`)
for (const [i, [transport, name]] of arms.entries()) {
  const of = (key) => median(results[i].map((result) => result[key])).toFixed(0)
  console.log(`| ${transport} | ${name} | ${of('p50')} | ${of('p99')} | ${of('throughput')} |`)
}
console.log(`\nmedian of ${n_rounds} rounds in turns, ${seconds} s a figure; calls/s: stdio with ${n_pipelined} calls in ` +
  `flight, HTTP and WebSocket with ${n_connections} connections; load now ${loadavg()[0].toFixed(2)}`)

// Eight greedy answers of 64 tokens at the same time, against the same one after the other.
const beginnings = ['The capital of France is', 'Once upon a time there was a horse that', 'Water boils when',
  'The quick brown fox', 'Some cities: Rome, Oslo,', 'Alexander the Great', 'In the beginning there was',
  'Two and two make four; three and three make']
async function complete(prompt) {
  const answer = await fetch(`${server.url}/v1/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ model: 'engram-nano', prompt, max_tokens: 64, temperature: 0, logit_bias: { 1: -100 } }) })
  const { choices, usage } = await answer.json()
  if (usage.completion_tokens !== 64) throw new Error(`${usage.completion_tokens} tokens instead of 64`)
  return choices[0].text
}
const one_by_one = async () => {
  const texts = []
  for (const prompt of beginnings) texts.push(await complete(prompt))
  return texts
}
const together = () => Promise.all(beginnings.map(complete))
const ratios = []
const expected_texts = await together()
for (let round = 0; round < 9; ++round) {
  const times_ms = []
  for (const way of [one_by_one, together]) {
    const start = performance.now()
    const texts = await way()
    times_ms.push(performance.now() - start)
    if (texts.join('\n') !== expected_texts.join('\n')) throw new Error('an answer depends on its company')
  }
  ratios.push({ alone: times_ms[0], together: times_ms[1], share: times_ms[1] / times_ms[0] })
}
const of_rounds = (key) => median(ratios.map((round) => round[key]))
console.log(`\n8 chats of 64 tokens over HTTP: ${of_rounds('alone').toFixed(0)} ms one after the other, ` +
  `${of_rounds('together').toFixed(0)} ms together: ${(100 * of_rounds('share')).toFixed(1)} %, the same texts`)
await server.stop()
process.exit(0)
