// How soon a client that is gone gives its place in the batch back, over each transport: from the end
// of its connection to the /metrics that say so, their own round trip included.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { import_or_skip, serve } from './lib/engramd.mjs'

const { WebSocket } = await import_or_skip('ws')
const n_times = 9
// The 50 ms hold on a quiet machine; the answer itself would take about a second.
const limit_ms = 250

let server
before(async () => { server = await serve() })
after(() => server.stop())

async function n_running() {
  const text = await (await fetch(`${server.url}/metrics`, { headers: server.headers })).text()
  return Number(/^engramd_queue_running (\d+)/m.exec(text)[1])
}

// Without its end-of-sentence token (1) the model writes until its context is full.
const endless = { model: 'engram-nano', prompt: 'Once', max_tokens: 2000, stream: true, logit_bias: { 1: -100 } }

// Resolve with a function that cuts the connection, once the answer streams.
const over_http = () => new Promise((resolve, reject) => {
  const body = JSON.stringify(endless)
  const { hostname, port, host } = new URL(server.url)
  const socket = connect(port, hostname)
  socket.on('error', reject)
  socket.write(`POST /v1/completions HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n` +
    `Authorization: Bearer ${server.token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  socket.on('data', (bytes) => bytes.includes('data: ') && resolve(() => socket.destroy()))
})

const over_websocket = () => new Promise((resolve, reject) => {
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/mcp`, 'mcp', { headers: server.headers })
  const send = (message) => socket.send(JSON.stringify({ jsonrpc: '2.0', ...message }))
  socket.on('error', reject)
  socket.on('open', () => {
    send({ id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {},
      clientInfo: { name: 'vanish', version: '1' } } })
    send({ method: 'notifications/initialized' })
    send({ id: 1, method: 'tools/call', params: { name: 'chat', _meta: { progressToken: 1 },
      arguments: { completion: 'Once', max_tokens: 2000, logit_bias: [{ token: 1, bias: -100 }] } } })
  })
  socket.on('message', (bytes) => bytes.includes('notifications/progress') && resolve(() => socket.terminate()))
})

for (const [transport, start] of Object.entries({ HTTP: over_http, WebSocket: over_websocket })) {
  test(`${transport}: alone, and with others that go on`, async () => {
    for (const n_others of [0, 3]) {
      const times_ms = []
      for (let i = 0; i < n_times; ++i) {
        const others = await Promise.all(Array.from({ length: n_others }, over_http))
        const cut = await start()
        assert.equal(await n_running(), n_others + 1, 'all of them run')
        const begin = performance.now()
        cut()
        while (await n_running() > n_others) assert.ok(performance.now() - begin < 10_000)
        times_ms.push(performance.now() - begin)
        others.forEach((end) => end())
        while (await n_running() > 0) assert.ok(performance.now() - begin < 20_000)
      }
      times_ms.sort((a, b) => a - b)
      console.log(`${transport}, ${n_others} others: median ${times_ms[n_times >> 1].toFixed(1)} ms, ` +
        `longest ${times_ms.at(-1).toFixed(1)} ms`)
      assert.ok(times_ms[n_times >> 1] <= limit_ms, `${times_ms[n_times >> 1]} ms is above ${limit_ms} ms`)
    }
  })
}
