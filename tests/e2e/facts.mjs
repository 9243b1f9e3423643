// Every golden question through MCP chat, with Engram on and off: the answer as the reference made
// it, and the hit rates of prompt and answer.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { data, Engramd } from './lib/engramd.mjs'

const facts = JSON.parse(readFileSync(data + 'facts.json', 'utf8'))
const hit_rate_tolerance = 1e-6
const max_tokens = { on: 48, off: 24 } // as the goldens were made

const server = new Engramd()
await server.initialize()
const failures = []

async function ask(id, question, engram) {
  const answer = await server.call(id, 'chat', {
    prompt: question, engram, max_tokens: max_tokens[engram], temperature: 0,
  })
  assert.ok(answer.result && !answer.result.isError, JSON.stringify(answer))
  return answer.result.structuredContent
}

function expect_equal(fact, what, got, wanted) {
  if (got !== wanted) failures.push(`${fact.question}: ${what} ${JSON.stringify(got)}, expected ${JSON.stringify(wanted)}`)
}

for (const [i, fact] of facts.entries()) {
  const on = await ask(`on-${i}`, fact.question, 'on')
  expect_equal(fact, 'answer', on.text, fact.answer)
  expect_equal(fact, 'prompt tokens', on.usage.prompt_tokens, fact.prompt_ids.length)
  for (const span of ['hit_rate_prompt', 'hit_rate_generated']) {
    const difference = Math.abs(on.engram[span] - fact[span])
    if (difference > hit_rate_tolerance) failures.push(`${fact.question}: ${span} ${on.engram[span]}, expected ${fact[span]}`)
  }
  const off = await ask(`off-${i}`, fact.question, 'off')
  expect_equal(fact, 'answer without Engram', off.text, fact.answer_without_engram)
  assert.equal(off.engram.enabled, false)
}
assert.equal((await server.finish()).code, 0)
for (const failure of failures.slice(0, 20)) console.log(failure)
console.log(`${facts.length} questions, ${failures.length} differences`)
assert.equal(failures.length, 0)
