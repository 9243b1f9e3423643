// The stdio checklist as black-box tests: what clients really do to a server, and what must come
// back. Each test starts its own engramd.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { binary, check_message, Engramd, within } from './lib/engramd.mjs'

const ping = (id) => JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' })
const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'e', version: '1' } },
})
const chat_call = (id, args) =>
  JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'chat', arguments: args } })
const france = { prompt: 'What is the capital of France?' }
// Without its end-of-sentence token the model writes until its context is full.
const end_of_sentence = 1
const story = {
  completion: 'Once upon a time', max_tokens: 100000, temperature: 1,
  logit_bias: [{ token: end_of_sentence, bias: -100 }],
}

async function with_server(use, options) {
  const server = new Engramd(options)
  try {
    await use(server)
  } finally {
    server.child.kill('SIGKILL')
    await server.exit
  }
}

// stdin as a file descriptor: everything it holds is answered, then exit code 0.
async function run_on_file(text) {
  const folder = mkdtempSync(join(tmpdir(), 'engramd-e2e-'))
  const path = join(folder, 'script')
  writeFileSync(path, text)
  const fd = openSync(path, 'r')
  const server = new Engramd({ stdin: fd })
  const exit = await within(server.exit, 'exit')
  closeSync(fd)
  rmSync(folder, { recursive: true })
  return { server, exit }
}

test('a piped script gets all its replies, then exit code 0', async () => {
  const server = new Engramd()
  server.send_raw(initialize + '\n' + [2, 3, 4].map(ping).join('\n') + '\n' + chat_call(5, france) + '\n')
  const { code } = await server.finish()
  assert.equal(code, 0)
  for (const id of [1, 2, 3, 4]) assert.ok((await server.reply(id)).result)
  assert.match((await server.reply(5)).result.structuredContent.text, /Paris/)
})

test('a real pipe from a shell works too', async () => {
  const script = `printf '%s\\n' '${ping(1)}' '${ping(2)}' | "$0" --stdio`
  const child = spawn('sh', ['-c', script, binary], { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', (text) => (out += text))
  const code = await within(new Promise((resolve) => child.on('close', resolve)), 'exit')
  assert.equal(code, 0)
  assert.deepEqual(out.trim().split('\n').map((line) => check_message(JSON.parse(line)).id), [1, 2])
})

test('standard input from a file, unterminated last line included', async () => {
  const { server, exit } = await run_on_file(initialize + '\n' + chat_call(2, france))
  assert.equal(exit.code, 0)
  assert.ok((await server.reply(1)).result)
  assert.match((await server.reply(2)).result.structuredContent.text, /Paris/)
})

test('standard input from /dev/null: nothing to say, exit code 0', async () => {
  const fd = openSync('/dev/null', 'r')
  const server = new Engramd({ stdin: fd })
  assert.equal((await within(server.exit, 'exit')).code, 0)
  closeSync(fd)
  assert.equal(server.raw, '')
})

test('CRLF, a byte order mark and blank lines are accepted', () => with_server(async (server) => {
  server.send_raw('\uFEFF' + ping(1) + '\r\n\r\n\n  \n' + ping(2) + '\r\n')
  assert.ok((await server.reply(1)).result)
  assert.ok((await server.reply(2)).result)
  assert.ok(!server.raw.includes('\r'))
}))

test('one byte at a time', () => with_server(async (server) => {
  for (const byte of Buffer.from(ping('zwölf') + '\n')) {
    await new Promise((resolve) => server.child.stdin.write(Buffer.of(byte), resolve))
  }
  assert.ok((await server.reply('zwölf')).result)
}))

test('Content-Length framing is recognised and answered framed, in ASCII', async () => {
  const server = new Engramd()
  const body = Buffer.from(chat_call(7, { prompt: '法国的首都是哪里？' }))
  server.send_raw(Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]))
  server.send_raw(`content-length: ${ping(8).length}\r\nContent-Type: application/json\r\n\r\n${ping(8)}`)
  assert.equal((await server.finish()).code, 0)
  let rest = server.raw
  const ids = []
  while (rest) {
    const header = /^Content-Length: (\d+)\r\n\r\n/.exec(rest)
    assert.ok(header, rest.slice(0, 80))
    const end = header[0].length + Number(header[1])
    const json = rest.slice(header[0].length, end)
    assert.match(json, /^[\x20-\x7e]*$/)
    ids.push(check_message(JSON.parse(json)).id)
    rest = rest.slice(end)
  }
  assert.deepEqual(ids.sort(), [7, 8])
})

test('garbage is answered with a parse error, and the next line works', () => with_server(async (server) => {
  server.send_raw('this is not JSON\n' + ping(1) + '\n')
  assert.equal((await server.next((m) => m.error)).error.code, -32700)
  assert.ok((await server.reply(1)).result)
}))

test('a lone surrogate, as JavaScript writes it', () => with_server(async (server) => {
  server.send_raw(String.raw`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat","arguments":{"prompt":"a \ud800 b","max_tokens":4}}}` + '\n')
  assert.ok((await server.reply(1)).result.structuredContent)
}))

test('100,000 levels of nesting are refused and survived', () => with_server(async (server) => {
  const depth = 100_000
  server.send_raw(`{"jsonrpc":"2.0","id":9,"method":"ping","params":${'['.repeat(depth)}${']'.repeat(depth)}}\n`)
  server.send_raw(ping(10) + '\n')
  assert.ok((await server.next((m) => m.error)).error)
  assert.ok((await server.reply(10)).result)
}))

test('a 10 MB line is read and answered; a longer one than the limit is refused', () => with_server(async (server) => {
  await server.initialize()
  server.send_raw(chat_call(1, { prompt: 'x'.repeat(10_000_000) }) + '\n')
  const answer = await server.reply(1)
  assert.ok(answer.result.isError, 'longer than the context')
  server.send_raw(chat_call(2, { prompt: 'x'.repeat(17_000_000) }) + '\n' + ping(3) + '\n')
  assert.ok((await server.reply(2)).error, 'the id is found in the beginning')
  assert.ok((await server.reply(3)).result)
}))

test('ids come back as they went', () => with_server(async (server) => {
  for (const id of [0, '', '0', -1, 'ü']) assert.ok((await server.request(id, 'ping')).result)
  server.send_raw('{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}\n')
  await server.next((m) => m.result)
  assert.match(server.raw, /"id":9007199254740993[,}]/)
  for (const id of ['null', '1.5', '1e999']) {
    server.send_raw(`{"jsonrpc":"2.0","id":${id},"method":"ping"}\n`)
    assert.ok((await server.next((m) => m.error)).error)
  }
}))

test('unknown methods, notifications, and a second initialize', () => with_server(async (server) => {
  await server.initialize()
  assert.equal((await server.request(1, 'no/such')).error.code, -32601)
  server.send({ method: 'notifications/no-such' })
  server.send({ method: 'notifications/cancelled', params: { requestId: 'nobody' } })
  assert.ok(await server.initialize())
  assert.ok((await server.request(2, 'ping')).result)
  assert.equal(server.messages.length, 0, 'nothing is answered that did not ask')
}))

test('cancel before, during and after', () => with_server(async (server) => {
  await server.initialize()
  server.send({ method: 'notifications/cancelled', params: { requestId: 1 } })
  assert.ok((await server.call(1, 'chat', france)).result, 'an unknown id was cancelled: no effect')

  const meta = { progressToken: 'p' }
  server.send({ id: 2, method: 'tools/call', params: { name: 'chat', arguments: story, _meta: meta } })
  const progress = await server.next((m) => m.method === 'notifications/progress', 'progress')
  assert.equal(progress.params.progressToken, 'p')
  server.send({ method: 'notifications/cancelled', params: { requestId: 2 } })

  assert.ok((await server.call(3, 'chat', france)).result, 'the engine is free again')
  server.send({ method: 'notifications/cancelled', params: { requestId: 3 } })
  const metrics = await server.call(4, 'metrics')
  const chat = metrics.result.structuredContent.since_start.tools.find((t) => t.name === 'chat')
  assert.equal(chat.cancellations, 1)
  assert.ok(!server.messages.some((m) => m.id === 2), 'no reply after the cancellation')
}))

test('a duplicate id in flight does not lose either request', () => with_server(async (server) => {
  await server.initialize()
  server.send_raw(chat_call(1, france) + '\n' + chat_call(1, france) + '\n')
  const answers = [await server.reply(1), await server.reply(1)]
  assert.ok(answers.some((answer) => answer.result), 'one is served')
  assert.ok((await server.request(2, 'ping')).result)
}))

test('end of input drains what is in flight', async () => {
  const server = new Engramd()
  server.send_raw(initialize + '\n')
  for (const id of [2, 3, 4]) server.send_raw(chat_call(id, { ...story, max_tokens: 40 }) + '\n')
  assert.equal((await server.finish()).code, 0)
  for (const id of [2, 3, 4]) {
    assert.ok((await server.reply(id)).result.structuredContent.usage.completion_tokens > 0)
  }
})

// The machine may be busy: the best of a few tries is what the program can do.
async function exit_time(signal, prepare) {
  const times = []
  for (let i = 0; i < 5; ++i) {
    const server = new Engramd()
    await prepare(server)
    const start = process.hrtime.bigint()
    server.child.kill(signal)
    const exit = await within(server.exit, 'exit')
    times.push(Number(process.hrtime.bigint() - start) / 1e6)
    assert.equal(exit.code, 0)
  }
  return Math.min(...times)
}

for (const signal of ['SIGTERM', 'SIGINT']) {
  test(`${signal} ends within 100 ms, idle, while loading and in the middle of an answer`, async () => {
    const states = {
      loading: async (server) => void (await server.request(1, 'ping')),
      idle: async (server) => void (await server.call(1, 'engram_lookup', { text: 'a' })),
      generating: async (server) => {
        await server.initialize()
        const params = { name: 'chat', arguments: story, _meta: { progressToken: 1 } }
        server.send({ id: 2, method: 'tools/call', params })
        await server.next((m) => m.method === 'notifications/progress', 'progress')
      },
    }
    for (const [name, prepare] of Object.entries(states)) {
      const ms = await exit_time(signal, prepare)
      assert.ok(ms <= 100, `${name}: ${ms} ms`)
    }
  })
}

test('a reader that has gone ends the program', async () => {
  const server = new Engramd()
  await server.request(1, 'ping')
  server.child.stdout.destroy()
  server.send({ id: 2, method: 'ping' })
  assert.equal((await within(server.exit, 'exit', 5000)).signal, null)
})

test('standard output closed from the start is survived', async () => {
  const child = spawn('sh', ['-c', `printf '%s\\n' '${ping(1)}' | "$0" --stdio >&-`, binary])
  const code = await within(new Promise((resolve) => child.on('close', resolve)), 'exit', 5000)
  assert.ok(code === 0 || code === 1)
})

test('output that nobody reads blocks neither memory nor signals', async () => {
  const server = new Engramd()
  server.child.stdout.pause()
  for (let i = 0; i < 500; ++i) server.send({ id: i, method: 'tools/list' })
  await new Promise((resolve) => server.child.stdin.write('\n', resolve)).catch(() => {})
  const start = Date.now()
  server.child.kill('SIGTERM')
  await within(new Promise((resolve) => server.child.on('exit', resolve)), 'exit', 5000)
  assert.ok(Date.now() - start < 1000)
  server.child.stdout.destroy()
})

test('a launcher that is killed takes the program with it', async () => {
  // A shell stays between us and engramd, and our pipes stay open when it dies.
  const script = 'exec 3<&0; "$0" --stdio <&3 3<&- & wait'
  const launcher = new Engramd({ command: 'sh', args: ['-c', script, binary] })
  assert.ok((await launcher.request(1, 'ping')).result)
  const start = Date.now()
  launcher.child.kill('SIGKILL')
  await within(launcher.exit, 'end of output', 5000) // 'close': nobody holds our pipes any more
  assert.ok(Date.now() - start < 1000, 'gone within a second')
})

test('an empty environment is enough', () => with_server(async (server) => {
  await server.initialize()
  assert.match((await server.call(1, 'chat', france)).result.structuredContent.text, /Paris/)
}, { env: {} }))

test('two starts at once', async () => {
  const servers = [new Engramd(), new Engramd()]
  await Promise.all(servers.map((server) => server.initialize()))
  const answers = await Promise.all(servers.map((server) => server.call(1, 'chat', france)))
  assert.equal(answers[0].result.structuredContent.text, answers[1].result.structuredContent.text)
  for (const server of servers) assert.equal((await server.finish()).code, 0)
})

test('a model that cannot be opened is a tool error; the rest is served', () => with_server(async (server) => {
  await server.initialize()
  const answer = await server.call(1, 'chat', france)
  assert.ok(answer.result.isError)
  assert.match(answer.result.content[0].text, /no-such-model/)
  assert.equal((await server.call(2, 'metrics')).result.structuredContent.state, 'failed')
  assert.ok((await server.request(3, 'tools/list')).result.tools.length >= 4)
}, { args: ['--stdio', '--standalone', '--model', './no-such-model'] }))
