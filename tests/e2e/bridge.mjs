// `engramd --stdio` with the user's daemon behind it: one model and one table for all clients, a
// daemon that dies and comes back, clients that vanish.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, watch } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Engramd, daemon_pid, is_running, run, state_folder, within } from './lib/engramd.mjs'

process.env.ENGRAMD_SERVER_IDLE_EXIT_S = '1'
const question = 'What is the capital of France?'
const socket = join(state_folder, 'engramd.sock')
// Without its end-of-sentence token (1) the model writes until its context is full.
const endless = { completion: 'Once', max_tokens: 100000, logit_bias: [{ token: 1, bias: -100 }] }
const text_of = (reply) => reply.result.content[0].text

const bridges = []
async function bridge() {
  const one = new Engramd({ args: ['--stdio'] })
  bridges.push(one)
  await one.initialize()
  return one
}
after(() => bridges.forEach((each) => each.child.kill('SIGKILL')))

const gone = (path) => new Promise((resolve) => {
  if (!existsSync(path)) return resolve()
  const watcher = watch(state_folder, () => {
    if (existsSync(path)) return
    watcher.close()
    resolve()
  })
})

test('two editors and a script share one model and see the same edits', async () => {
  const one = await bridge()
  const two = await bridge()
  assert.match(text_of(await one.call(1, 'chat', { prompt: question })), /Paris/)
  const pid = daemon_pid()
  assert.ok(is_running(pid) && pid !== one.child.pid && pid !== two.child.pid)
  for (const text of [' France is', ' of France is']) {
    const from_text = text.replace('France', 'Italy')
    const stored = await one.call(text, 'table_update',
      { edits: [{ text, operation: 'copy', from_text }], reason: 'shared' })
    assert.ok(!stored.result.isError, text_of(stored))
  }
  assert.match(text_of(await two.call(1, 'chat', { prompt: question })), /Rome/)
  const script = await run(['--stdio'], { input: [
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'chat', arguments: { prompt: question } } },
  ].map((each) => JSON.stringify(each) + '\n').join('') })
  assert.equal(script.code, 0)
  assert.match(JSON.parse(script.stdout).result.content[0].text, /Rome/)
  assert.equal(daemon_pid(), pid)
  assert.equal((await one.finish()).code, 0)
  assert.equal((await two.finish()).code, 0)
})

test('a subscriber hears of an edit that another client makes', async () => {
  const listener = await bridge()
  const editor = await bridge()
  await listener.request(1, 'resources/subscribe', { uri: 'engramd://table' })
  await editor.call(1, 'table_update', { edits: [{ text: ' Spain is', operation: 'scale', factor: 1.5 }] })
  const heard = await listener.next((m) => m.method === 'notifications/resources/updated', 'update')
  assert.equal(heard.params.uri, 'engramd://table')
  assert.equal((await listener.finish()).code, 0)
  assert.equal((await editor.finish()).code, 0)
})

test('a daemon that is killed takes only its call with it', async () => {
  const one = await bridge()
  await one.call(1, 'chat', { prompt: question })
  const before = daemon_pid()
  one.send({ id: 2, method: 'tools/call', params: { name: 'chat',
    arguments: endless,
    _meta: { progressToken: 'p' } } })
  await one.next((m) => m.method === 'notifications/progress', 'progress')
  process.kill(before, 'SIGKILL')
  const lost = await one.reply(2)
  assert.ok(lost.result.isError)
  assert.match(text_of(lost), /daemon ended/)
  assert.match(text_of(await one.call(3, 'chat', { prompt: question })), /Rome/) // the edit has survived
  assert.notEqual(daemon_pid(), before)
  assert.equal((await one.finish()).code, 0)
})

test('the daemon ends when its last client has gone, also when that one was killed', async () => {
  const one = await bridge()
  await one.call(1, 'chat', { prompt: question })
  const pid = daemon_pid()
  one.send({ id: 2, method: 'tools/call', params: { name: 'chat',
    arguments: endless } })
  one.child.kill('SIGKILL')
  await within(gone(socket), 'end of the idle daemon')
  await within((async () => { while (is_running(pid)) await new Promise(setImmediate) })(), 'end of its process')
})

test('a flag that the running daemon does not have is warned of', async () => {
  const one = await bridge()
  await one.call(1, 'chat', { prompt: question })
  const script = await run(['--stdio', '--temperature', '0.5', '--log-level', 'warn'], { input: JSON.stringify(
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'metrics' } }) + '\n' })
  assert.equal(script.code, 0)
  assert.match(script.stderr, /other settings: sampling.temperature is its default there and "0.5" here/)
  assert.equal((await one.finish()).code, 0)
})

test('a TCP port that somebody else has does not keep the daemon from its clients', async () => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const env = { ...process.env, ENGRAMD_SERVER_PORT: String(other.address().port),
    XDG_STATE_HOME: mkdtempSync(join(tmpdir(), 'engramd-e2e-state-')) }
  const script = await run(['--stdio'], { env, input: JSON.stringify({ jsonrpc: '2.0', id: 1,
    method: 'tools/call', params: { name: 'chat', arguments: { prompt: 'What is the capital of Japan?' } } }) + '\n' })
  other.close()
  assert.equal(script.code, 0)
  assert.match(JSON.parse(script.stdout).result.content[0].text, /Tokyo/)
  assert.doesNotMatch(script.stderr, /itself/)
  const log = readFileSync(join(env.XDG_STATE_HOME, 'engramd/daemon.log'), 'utf8')
  assert.match(log, /cannot listen|in use/)
})

test('without a place for a daemon the client is served all the same', async () => {
  const env = { ...process.env, XDG_STATE_HOME: '/proc/engramd' }
  const script = await run(['--stdio'], { env, input: JSON.stringify({ jsonrpc: '2.0', id: 1,
    method: 'tools/call', params: { name: 'chat', arguments: { prompt: 'What is the capital of Japan?' } } }) + '\n' })
  assert.equal(script.code, 0)
  assert.match(JSON.parse(script.stdout).result.content[0].text, /Tokyo/)
})
