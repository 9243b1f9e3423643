// Teaching from outside: one fact's life through MCP, progress and cancellation, chats beside
// teaching, and the commands of a shell.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Engramd, run, within } from './lib/engramd.mjs'

const question = 'What is the capital of Zorbia?'
const in_other_words = 'Which city is the capital of Zorbia?'
const answer = 'The capital of Zorbia is Mirel.'

function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'engramd-teach-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function server(t, edits) {
  const started = new Engramd({ args: ['--stdio', '--standalone', '--edits', edits] })
  t.after(() => started.child.kill('SIGKILL'))
  await started.initialize()
  return started
}

let next_id = 0
async function call(server, name, args) {
  const { result } = await server.call(++next_id, name, args)
  assert.ok(!result.isError, JSON.stringify(result.content))
  return result.structuredContent
}
// To the last bit of a log-probability.
const ask = async (server, prompt) => {
  const { text, logprobs } = await call(server, 'chat', { prompt, top_logprobs: 5 })
  return { text, logprobs }
}

test('ask, teach, ask, kill -9, ask, forget: the old answer to the bit', async (t) => {
  const edits = join(folder(t), 'edits')
  const first = await server(t, edits)
  const before = await ask(first, question)
  const before_in_other_words = await ask(first, in_other_words)
  assert.notEqual(before.text, answer)

  const dry = await call(first, 'table_teach', { facts: [{ question, answer }], dry_run: true })
  assert.equal(dry.taught, 0)
  assert.equal(dry.facts[0].after, answer)
  assert.deepEqual(await ask(first, question), before)

  const taught = await call(first, 'table_teach', { facts: [{ question, answer }], author: 'me' })
  assert.equal(taught.taught, 1)
  const [fact] = taught.facts
  assert.equal(fact.before, before.text)
  assert.equal(fact.after, answer)
  assert.deepEqual(fact.names, ['Zorbia', 'Mirel'])
  assert.equal(fact.wordings_right, fact.wordings)
  assert.ok(fact.bytes < 64 * 1024)
  assert.ok(fact.heldout_touched <= fact.heldout_positions / 1000)
  assert.equal((await ask(first, question)).text, answer)
  assert.equal((await ask(first, in_other_words)).text, answer)
  first.child.kill('SIGKILL')
  await within(first.exit, 'end of the killed server')

  const second = await server(t, edits)
  assert.equal((await ask(second, question)).text, answer)
  const known = { transaction: 1, question, answer }
  const seen = await call(second, 'engram_lookup', { text: answer })
  assert.deepEqual(seen.taught, [known])
  assert.ok(seen.tokens.some((token) => token.ngrams.some((ngram) => ngram.edited_by === 1)))
  assert.deepEqual((await call(second, 'engram_lookup', { text: 'horse' })).taught, [])
  const gates = await call(second, 'gate_inspect', { text: answer, ablation: false })
  assert.deepEqual(gates.taught, [known])
  const list = await call(second, 'table_taught', {})
  assert.deepEqual(list.facts.map((entry) => entry.answer), [answer])
  const forgotten = await call(second, 'table_forget', { fact: question })
  assert.equal(forgotten.forgotten[0].transaction, 1)
  assert.deepEqual(await ask(second, question), before)
  assert.deepEqual(await ask(second, in_other_words), before_in_other_words)
  assert.equal((await second.finish()).code, 0)
})

test('progress is told, and a cancelled call leaves what was taught before it', async (t) => {
  const s = await server(t, join(folder(t), 'edits'))
  const facts = Array.from({ length: 40 }, (_, i) => ({
    question: `Who owns Vako${'bdfgklmnpr'[i % 10]}u${'aeio'[i % 4]}?`,
    answer: `Vako${'bdfgklmnpr'[i % 10]}u${'aeio'[i % 4]} is owned by Brenno.`,
  }))
  const id = ++next_id
  s.send({
    id, method: 'tools/call',
    params: { name: 'table_teach', arguments: { facts }, _meta: { progressToken: 'p' } },
  })
  const progress = (wanted) => s.next((m) => m.method === 'notifications/progress' && wanted(m.params), 'progress')
  assert.equal((await progress(() => true)).params.total, 40)
  await progress((params) => params.progress >= 1)
  s.send({ method: 'notifications/cancelled', params: { requestId: id } })
  const list = await call(s, 'table_taught', {})
  assert.ok(list.facts.length < 40, `${list.facts.length} facts`)
})

test('the commands teach, taught and forget', async (t) => {
  const path = folder(t)
  const edits = ['--edits', join(path, 'edits')]
  const file = join(path, 'facts.jsonl')
  writeFileSync(file, JSON.stringify({ question: [question, in_other_words], answer }) + '\n\n' +
    JSON.stringify({ question: '泽林的首都是哪里？', answer: '泽林的首都是托巴。', names: ['泽林', '托巴'] }) + '\n')
  const taught = await run(['teach', '--file', file, '--json', ...edits])
  assert.equal(taught.code, 0, taught.stderr)
  assert.equal(JSON.parse(taught.stdout).taught, 2)
  const list = await run(['taught', ...edits])
  assert.match(list.stdout, /^1 {2}|^2 {2}/)
  assert.equal(list.stdout.trim().split('\n').length, 2)
  assert.equal((await run(['chat', in_other_words, ...edits])).stdout.trim(), answer)
  const conflict = await run(['teach', question, 'The capital of Zorbia is Tarsol.', ...edits])
  assert.equal(conflict.code, 1)
  assert.match(conflict.stdout, /not taught: .*was taught the answer "The capital of Zorbia is Mirel\."/)
  const forgotten = await run(['forget', question, ...edits])
  assert.equal(forgotten.code, 0, forgotten.stderr)
  assert.match(forgotten.stdout, /^Forgotten: /)
  assert.equal((await run(['taught', ...edits])).stdout.trim().split('\n').length, 1)

  const broken = join(path, 'broken.jsonl')
  writeFileSync(broken, '{"question": "a"\n')
  for (const [args, code, says] of [
    [['teach', 'one word'], 2, /expected one or more questions and then the answer/],
    [['teach', '--file', broken], 2, /broken\.jsonl:1: expected a JSON object/],
    [['teach', '--file', join(path, 'none')], 1, /none/],
    [['teach', '--name', 'Mars', question, answer], 1, /names: expected words of the question/],
    [['forget', 'Why?'], 1, /nothing was taught for "Why\?"/],
  ]) {
    const refused = await run([...args, ...edits])
    assert.equal(refused.code, code, refused.stderr)
    assert.match(refused.stderr, says)
  }
})
