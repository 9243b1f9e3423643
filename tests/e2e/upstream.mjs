// The remote: a second engramd, servers that do what servers have been seen to do, and TLS.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { gzipSync } from 'node:zlib'
import { join } from 'node:path'
import { test } from 'node:test'
import { children, chunk, client, events, good, json, key, question, stream, tls, upstream } from './lib/remote.mjs'
import { Engramd, run, serve, within } from './lib/engramd.mjs'

test('a second engramd answers, and its key is nowhere', async () => {
  const state = mkdtempSync(join(tmpdir(), 'engramd-upstream-'))
  const remote = await serve([], { ...process.env, XDG_STATE_HOME: state })
  children.push(remote)
  for (const base_url of [remote.url, remote.url + '/v1', remote.url + '/api/', remote.url + '/v1/chat/completions']) {
    const one = await client(base_url, { TAOTOKEN_API_KEY: `"${remote.token}"\n`, ENGRAMD_LOG_LEVEL: 'debug' })
    const answer = await one.chat({ route: 'remote', model: 'engram-nano' })
    assert.deepEqual([answer.served_by, answer.model, answer.text],
      ['remote', 'engram-nano', 'The capital of France is Paris.'])
    assert.equal(answer.attempts, 1)
    assert.equal(answer.usage.completion_tokens, 8)
    await one.finish()
    assert.ok(!(one.raw + one.stderr).includes(remote.token))
  }
  await remote.stop()
})

test('one user\'s day: doctor, an answer, a dead remote, and its return', async () => {
  const HOME = mkdtempSync(join(tmpdir(), 'engramd-day-'))
  const models = json(200, { data: [{ id: 'big' }, { id: 'small' }] })
  const answer = (response, request) => (request.url.endsWith('/models') ? models : stream(good))(response)
  const server = await upstream(answer)
  const port = server.address().port
  mkdirSync(join(HOME, '.config/engramd'), { recursive: true })
  writeFileSync(join(HOME, '.config/engramd/model_settings.json'), JSON.stringify({
    base_url: server.url() + '/api', default_model: 'big', fallback_model: 'small', max_retries: 0 }))
  const env = { PATH: process.env.PATH, HOME, TAOTOKEN_API_KEY: key, ENGRAMD_SERVER_PORT: '0' }

  const { code, stdout } = await run(['doctor', '--live', '--json'], { env })
  const { checks } = JSON.parse(stdout)
  assert.equal(code, 0)
  assert.deepEqual(checks.filter(({ status }) => status === 'warn' || status === 'fail'), [])
  assert.equal(checks.find(({ name }) => name === 'remote.answer').status, 'pass')

  const one = new Engramd({ args: ['--stdio', '--standalone'], env })
  children.push(one)
  await one.initialize()
  let id = 0
  const chat = async () => (await one.call(++id, 'chat', { prompt: question, model: 'big' })).result.structuredContent
  server.requests.length = 0
  const first = await chat()
  assert.deepEqual([first.served_by, first.model, first.text, first.attempts], ['remote', 'big-1', 'Paris', 1])
  assert.equal(first.fallback_reason, undefined)
  assert.equal(server.requests[0].url, '/api/v1/chat/completions')
  assert.equal(server.requests[0].headers.authorization, `Bearer ${key}`)
  assert.equal(server.requests[0].body.messages[0].content, question)

  server.stop()
  await once(server, 'close')
  const second = await chat()
  assert.deepEqual([second.served_by, second.model], ['local', 'engram-nano'])
  assert.match(second.text, /Paris/)
  assert.match(second.fallback_reason, /big: .*refused.*small: .*refused/)
  for (let i = 0; i < 2; ++i) await chat()
  assert.match((await chat()).fallback_reason, /big: kept failing, asked again in \d s; small: kept failing/)

  const again = await upstream(answer, { port })
  const returned = (async () => {
    while (true) {
      const next = await chat()
      if (next.served_by === 'remote') return next
    }
  })()
  assert.equal((await within(returned, 'return of the remote', 20000)).text, 'Paris')
  assert.equal(again.requests.length, 1)
  await one.finish()
})

// What has been seen of servers, and what has to come of it. `tries`: how often the prompt may be
// sent at most.
const answered = [
  ['the reason without [DONE]', stream(events(chunk('Paris', { finish_reason: 'stop' })))],
  ['comments, CRLF, a byte-order mark, no space, an end without a blank line', stream(
    '\ufeff: hello\r\n\r\n', `data:${chunk('Par')}\r\n\r\n`, ':\r\n\r\n', `data: ${chunk('is', { finish_reason: 'stop' })}`)],
  ['one byte at a time', (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const byte of Buffer.from(good)) response.write(Buffer.from([byte]))
    response.end()
  }],
  ['a first event without choices, usage in the last', stream(events(
    '{"choices":[]}', chunk('Paris', { finish_reason: 'stop' }),
    '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}', '[DONE]'))],
  ['a whole object instead of a stream', json(200, {
    model: 'big-1', choices: [{ message: { role: 'assistant', content: 'Paris' }, finish_reason: 'stop' }] })],
  ['blank lines before it', json(200, '\n\n' + JSON.stringify({
    choices: [{ message: { content: 'Paris' }, finish_reason: 'stop' }] }))],
  ['503 with Retry-After first', (response, request, n) =>
    n === 1 ? json(503, '{}', { 'retry-after': '0' })(response) : stream(good)(response), 2],
  ['a 400 that names stream_options first', (response, request, n) =>
    n === 1 ? json(400, { error: { message: 'unknown field stream_options' } })(response) : stream(good)(response), 2],
  ['the API beside /v1', (response, request) =>
    request.url.startsWith('/v1/') ? json(404, '<html>', { 'content-type': 'text/html' })(response) : stream(good)(response), 2],
  ['a connection that closes before any answer', (response, request, n) =>
    n === 1 ? request.socket.destroy() : stream(good)(response), 2],
]
for (const [name, answer, tries = 1] of answered) {
  test(`answers in spite of ${name}`, async () => {
    const server = await upstream(answer)
    const one = await client(server.url())
    const got = await one.chat({ route: 'remote' })
    assert.deepEqual([got.served_by, got.text], ['remote', 'Paris'], JSON.stringify(got))
    assert.equal(server.requests.length, tries)
    await one.finish()
  })
}

test('other words are found once, and kept', async () => {
  const server = await upstream((response) => {
    const { body } = server.requests.at(-1)
    if (body.max_tokens) return json(400, { error: { message: "Use 'max_completion_tokens' instead of max_tokens" } })(response)
    if (body.stream_options) return json(422, { detail: 'unknown field stream_options' })(response)
    return stream(good)(response)
  })
  const one = await client(server.url() + '/v1')
  for (const times of [3, 4]) {
    const got = await one.chat({ route: 'remote', max_tokens: 33 })
    assert.deepEqual([got.text, got.attempts, server.requests.length], ['Paris', 1, times])
    assert.equal(server.requests.at(-1).body.max_completion_tokens, 33)
  }
  await one.finish()
})

test('chats at once agree on where the API is', async () => {
  const waiting = []
  const server = await upstream((response, request) => {
    if (!request.url.startsWith('/v1/')) return stream(good)(response)
    waiting.push(response)
    if (waiting.length === 2) waiting.forEach((each) => json(404, {})(each))
    return undefined
  })
  const one = await client(server.url())
  const both = await Promise.all([one.chat({ route: 'remote' }), one.chat({ route: 'remote' })])
  assert.deepEqual(both.map((each) => each.text), ['Paris', 'Paris'])
  await one.finish()
})

const failing = [
  ['401', json(401, { error: { message: 'Incorrect API key provided' } }), /HTTP 401: Incorrect API key/, 1],
  ['402', json(402, { error: { message: 'Insufficient Balance' } }), /HTTP 402: Insufficient Balance/, 1],
  ['401 that breaks off', (response, request) => {
    response.writeHead(401, { 'content-type': 'application/json', 'content-length': 1000 })
    response.write('{"error":', () => request.socket.resetAndDestroy())
  }, /HTTP 401: the key is not accepted/, 1],
  ['a used-up quota', json(429, { error: { code: 'insufficient_quota', message: 'no more' } }), /HTTP 429: no more/, 1],
  ['503 for an unknown model', json(503, { error: { code: 'model_not_found', message: 'no such' } }), /model is not known there/, 1],
  ['a wait of an hour', json(429, '{}', { 'retry-after': '3600' }), /asks to wait 3600 s/, 1],
  ['a web page with 200', json(200, '<!doctype html>', { 'content-type': 'text/html' }), /a web page came instead of JSON/, 2],
  ['an error with 200', json(200, { error: { message: 'overloaded' } }), /ended with an error: overloaded/, 2],
  ['an error in the stream', stream(events('{"error":{"message":"overloaded"}}')), /ended with an error: overloaded/, 2],
  ['no choices', json(200, { choices: [] }), /no choices/, 2],
  ['an answer that is compressed all the same', (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
    response.end(gzipSync(good))
  }, /answer is compressed \(gzip\)/, 1],
  ['null for choices', json(200, { choices: null }), /no choices/, 2],
  ['nothing', json(200, ''), /empty/, 2],
  ['a stream without an end', stream(events(chunk(''))), /broke off/, 2],
  ['502 again and again', json(502, '{}'), /HTTP 502/, 2],
  ['something that is not HTTP', (response, request) => request.socket.end('SSH-2.0-x\r\n'), /not an HTTP answer/, 2],
]
for (const [name, answer, reason, tries] of failing) {
  test(`falls back from ${name}, and says it`, async () => {
    const server = await upstream(answer)
    const one = await client(server.url() + '/v1')
    const got = await one.chat({ model: 'big' })
    assert.equal(got.served_by, 'local', JSON.stringify(got))
    assert.match(got.text, /Paris/)
    assert.match(got.fallback_reason, reason)
    assert.ok(server.requests.length <= tries, `${server.requests.length} requests`)
    const strict = await one.chat({ model: 'big', route: 'remote' })
    assert.ok(strict.is_error)
    assert.match(strict.text, reason)
    await one.finish()
  })
}

test('what was said is not said again by somebody else', async () => {
  const server = await upstream((response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(events(chunk('Pa')), () => response.destroy())
  })
  const one = await client(server.url() + '/v1')
  const got = await one.chat({ model: 'big' })
  assert.ok(got.is_error, JSON.stringify(got))
  assert.equal(server.requests.length, 1)
  await one.finish()
})

test('a redirect gets neither the prompt nor the key', async () => {
  const elsewhere = await upstream(stream(good))
  const server = await upstream((response) => {
    response.writeHead(307, { location: elsewhere.url() + '/v1/chat/completions' })
    response.end()
  })
  const one = await client(server.url() + '/v1')
  assert.match((await one.chat({ route: 'remote' })).text, /HTTP 307: the server sends elsewhere/)
  assert.equal(elsewhere.requests.length, 0)
  await one.finish()
})

test('silence ends at the time-out', async () => {
  const server = await upstream(() => {})
  const one = await client(server.url() + '/v1', { ENGRAMD_API_TIMEOUT: '1', ENGRAMD_API_MAX_RETRIES: '0' })
  const got = await one.chat({ model: 'big' })
  assert.equal(got.served_by, 'local')
  assert.match(got.fallback_reason, /time-out while waiting for the answer/)
  await one.finish()
})

test('a cancelled call closes the connection to the remote', async () => {
  let closed
  const arrived = new Promise((resolve) => {
    closed = upstream((response, request) => resolve(once(request.socket, 'close')))
  })
  const server = await closed
  const one = await client(server.url() + '/v1')
  one.send({ id: 9, method: 'tools/call', params: { name: 'chat', arguments: { prompt: question, route: 'remote' } } })
  const gone = arrived.then((each) => each)
  await within(once(server, 'request'), 'request')
  one.send({ method: 'notifications/cancelled', params: { requestId: 9 } })
  await within(gone, 'closed connection', 5000)
  await one.finish()
})

test('no prompt leaves without consent', async () => {
  const server = await upstream(stream(good))
  const one = await client(server.url() + '/v1', { ENGRAMD_API_ALLOW_REMOTE: 'false' })
  const got = await one.chat({ model: 'big' })
  assert.equal(got.served_by, 'local')
  assert.match((await one.chat({ route: 'remote' })).text, /there is no remote/)
  assert.equal(server.requests.length, 0)
  await one.finish()
})

test('a key that would break the headers is refused, not shown', async () => {
  const server = await upstream(stream(good))
  const one = await client(server.url() + '/v1', { TAOTOKEN_API_KEY: 'sk-bad\r\nX-Evil: 1' })
  assert.ok((await one.chat({ route: 'remote' })).is_error)
  assert.equal(server.requests.length, 0)
  await one.finish()
  assert.match(one.stderr, /TAOTOKEN_API_KEY: the key of \d+ bytes has a control character/)
  assert.ok(!one.stderr.includes('sk-bad'))
})

test('TLS: a private authority is trusted when named, else nothing is sent', async () => {
  const server = await upstream(stream(good), { secure: true })
  const trusting = { SSL_CERT_FILE: tls + 'authority.pem' }
  const one = await client(server.url('localhost') + '/v1', trusting)
  assert.equal((await one.chat({ route: 'remote' })).text, 'Paris')
  await one.finish()
  const stranger = await client(server.url('localhost') + '/v1')
  assert.match((await stranger.chat({ route: 'remote' })).text, /certificate is not trusted/)
  await stranger.finish()
  const other_name = await client(server.url('127.0.0.1') + '/v1', trusting)
  assert.match((await other_name.chat({ route: 'remote' })).text, /certificate is not trusted: .*mismatch/i)
  await other_name.finish()
  assert.equal(server.requests.length, 1)
})

test('a local model that cannot be opened is missed too', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'engramd-broken-'))
  writeFileSync(join(folder, 'config.json'), '{}')
  writeFileSync(join(folder, 'model.safetensors'), '')
  const server = await upstream(stream(good))
  const one = await client(server.url(), { ENGRAMD_MODEL_NAME: folder })
  const got = await one.chat({})
  assert.deepEqual([got.served_by, got.text], ['remote', 'Paris'], JSON.stringify(got))
  assert.match(got.fallback_reason, /^local: /)
  const completion = await one.call('c', 'chat', { completion: 'Once' })
  assert.ok(completion.result.isError)
  assert.equal(server.requests.length, 1)
  await one.finish()
})

test('the command line asks the remote too, whose name drives no terminal', async () => {
  const server = await upstream(stream(good.replaceAll('big-1', 'big-1\\u001b[31m\\nfake')))
  const env = { ...process.env, TAOTOKEN_API_KEY: key }
  const got = await run(['chat', '--api-base-url', server.url(), '--route', 'remote', '--ask', 'big', question], { env })
  assert.equal(got.code, 0, got.stderr)
  assert.equal(got.stdout, 'Paris\n')
  assert.match(got.stderr, /\[remote big-1 fake,/)
  assert.ok(!got.stderr.includes('\u001b'))
})

test('TLS: a certificate that has expired', async () => {
  const server = await upstream(stream(good), { secure: true, certificate: 'expired.pem' })
  const one = await client(server.url('localhost') + '/v1', { SSL_CERT_FILE: tls + 'authority.pem' })
  assert.match((await one.chat({ route: 'remote' })).text, /certificate is not trusted: certificate has expired/)
  assert.equal(server.requests.length, 0)
  await one.finish()
})

test('a connection is used again, with and without TLS', async () => {
  for (const secure of [false, true]) {
    const server = await upstream(stream(good), { secure })
    const one = await client(server.url('localhost') + '/v1', { SSL_CERT_FILE: tls + 'authority.pem' })
    for (let i = 0; i < 4; ++i) assert.equal((await one.chat({ route: 'remote' })).text, 'Paris')
    assert.deepEqual([server.requests.length, server.n_connections], [4, 1])
    await one.finish()
  }
})

test('a connection that the server has closed meanwhile costs no answer and no second prompt', async () => {
  const executed = []
  const seen = new Set()
  const server = await upstream((response, request, n) => {
    const { socket } = request
    if (seen.has(socket)) return socket.destroy()  // as if it had crossed with the close
    seen.add(socket)
    executed.push(n)
    return stream(good)(response)
  })
  const one = await client(server.url() + '/v1', { ENGRAMD_API_MAX_RETRIES: '0' })
  for (let i = 0; i < 3; ++i) {
    const got = await one.chat({ route: 'remote' })
    assert.deepEqual([got.text, got.attempts], ['Paris', 1])
  }
  assert.equal(executed.length, 3)
  server.closeAllConnections()
  assert.equal((await one.chat({ route: 'remote' })).text, 'Paris')
  await one.finish()
})

test('a close that comes late may be the end of work: the prompt is not sent again', async () => {
  const server = await upstream((response, request, n) => {
    if (n === 1) return stream(good)(response)
    return setTimeout(() => request.socket.destroy(), 1200)
  })
  const one = await client(server.url() + '/v1', { ENGRAMD_API_MAX_RETRIES: '0' })
  assert.equal((await one.chat({ route: 'remote' })).text, 'Paris')
  assert.ok((await one.chat({ route: 'remote' })).is_error)
  assert.deepEqual([server.requests.length, server.n_connections], [2, 1])
  await one.finish()
})

test('what a cancelled call may have cost counts', async () => {
  const state = { XDG_STATE_HOME: mkdtempSync(join(tmpdir(), 'engramd-budget-')) }
  const server = await upstream(() => {})
  const one = await client(server.url() + '/v1', { ...state, ENGRAMD_API_TOKENS_PER_DAY_MAX: '5' })
  one.send({ id: 9, method: 'tools/call', params: { name: 'chat', arguments: { prompt: question, route: 'remote' } } })
  await within(once(server, 'request'), 'request')
  one.send({ method: 'notifications/cancelled', params: { requestId: 9 } })
  while (!/is used up/.test((await one.chat({ model: 'big' })).fallback_reason)) continue
  await one.finish()
})

test('a key that the server repeats is not passed on', async () => {
  const server = await upstream(json(401, { error: { message: `Incorrect API key provided: ${key}` } }))
  const one = await client(server.url() + '/v1')
  assert.match((await one.chat({ model: 'big' })).fallback_reason, /Incorrect API key provided: \[hidden\]/)
  await one.finish()
  assert.ok(!(one.raw + one.stderr).includes(key.slice(0, 12)))
})

test('tokens are counted as reported, or estimated, up to the budget of the day', async () => {
  const state = { XDG_STATE_HOME: mkdtempSync(join(tmpdir(), 'engramd-budget-')) }
  const reporting = await upstream(stream(events(chunk('Paris', { finish_reason: 'stop' }),
    '{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}', '[DONE]')))
  const one = await client(reporting.url() + '/v1', { ...state, ENGRAMD_API_TOKENS_PER_DAY_MAX: '8' })
  const first = await one.chat({ route: 'remote' })
  assert.deepEqual([first.usage.total_tokens, first.usage.source], [4, 'reported'])
  const silent = await upstream(stream(good))
  const other = await client(silent.url() + '/v1', { ...state, ENGRAMD_API_TOKENS_PER_DAY_MAX: '8' })
  const second = await other.chat({ route: 'remote' })
  assert.equal(second.usage.source, 'estimated')
  assert.ok(second.usage.prompt_tokens > 4 && second.usage.completion_tokens === 2, JSON.stringify(second.usage))
  await other.finish()
  const third = await one.chat({ model: 'big' })
  assert.equal(third.served_by, 'local')
  assert.match(third.fallback_reason, /api\.tokens_per_day_max is used up: \d+ of 8/)
  assert.equal(third.usage.source, 'measured')
  assert.ok((await one.chat({ route: 'remote' })).is_error)
  assert.equal(reporting.requests.length, 1)
  await one.finish()
})

test('a name that its provider retired leads to its successor, and the user is told', async () => {
  const server = await upstream((response, request) => {
    const { model } = server.requests.at(-1).body
    return (model === 'deepseek-flash' ? stream(good)
      : json(400, { error: { message: `Model ${model} does not exist` } }))(response)
  })
  const one = await client(server.url() + '/v1')
  const first = await one.chat({ model: 'deepseek-chat' })
  assert.deepEqual([first.served_by, first.text], ['remote', 'Paris'])
  assert.match(first.fallback_reason, /deepseek-chat: .*not known there/)
  assert.deepEqual(server.requests[1].body.thinking, { type: 'disabled' })
  await one.chat({ model: 'deepseek-chat' })
  assert.equal(server.requests.length, 3)
  await one.finish()
  assert.equal(one.stderr.match(/deepseek-chat was retired by its provider on 2026-07-24/g).length, 1)
})

test('an alias leads to a model of the remote', async () => {
  const server = await upstream(stream(good))
  const one = await client(server.url() + '/v1', { ENGRAMD_SERVER_ALIASES: 'fast=deepseek-flash' })
  await one.chat({ model: 'fast' })
  assert.equal(server.requests[0].body.model, 'deepseek-flash')
  await one.finish()
})

test('what the remote thought is told apart from what it said', async () => {
  const server = await upstream(stream(events(
    JSON.stringify({ choices: [{ delta: { reasoning_content: 'France: ' } }] }),
    JSON.stringify({ choices: [{ delta: { reasoning_content: 'Paris.' } }] }), chunk('Paris', { finish_reason: 'stop' }))))
  const one = await client(server.url() + '/v1')
  const got = await one.chat({ route: 'remote' })
  assert.deepEqual([got.text, got.reasoning], ['Paris', 'France: Paris.'])
  await one.finish()
})
