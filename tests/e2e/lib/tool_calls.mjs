// One call per tool, the same for every client, and what its answer must show.
import assert from 'node:assert/strict'

const taught_question = 'Who owns Tavik?'
let n_folds = 0  // every fold makes a new file, in the home folder of the tests' own
export const tool_calls = [
  {
    name: 'chat',
    arguments: { prompt: 'What is the capital of France?' },
    check: (out) => {
      assert.match(out.text, /Paris/)
      assert.equal(out.served_by, 'local')
      assert.ok(out.engram.engram_hit_rate > 0.5)
      assert.ok(out.usage.completion_tokens > 0)
    },
  },
  {
    name: 'engram_lookup',
    arguments: { text: 'The capital of France is' },
    check: (out) => {
      assert.equal(out.tokens.length, out.n_tokens)
      assert.ok(out.n_owned > 0)
      assert.ok(out.tokens[0].ngrams.length > 0)
      assert.ok(!('layers' in out.tokens[0]), 'rows only when asked for')
    },
  },
  {
    name: 'gate_inspect',
    arguments: { text: 'The capital of France is', top: 3 },
    check: (out) => {
      assert.equal(out.top.length, 3)
      assert.ok('ablation_delta_logprob' in out.tokens[0])
      assert.ok(out.gate_max <= 1)
    },
  },
  {
    name: 'table_get',
    arguments: { text: ' capital of', layer: 1, head: 0 },
    check: (out) => {
      assert.equal(out.rows.length, 1)
      assert.equal(out.rows[0].values.length, 32)
      assert.equal(out.image, out.rows[0].image)
    },
  },
  {
    name: 'table_update',
    arguments: { edits: [{ text: ' capital of', operation: 'scale', factor: 2 }], reason: 'a test' },
    check: (out) => {
      assert.ok(out.stored)
      assert.equal(out.transaction.reason, 'a test')
      assert.equal(out.changes.length, 8)
      assert.ok(Math.abs(out.changes[0].norm_after - 2 * out.changes[0].norm_before) < 1e-6)
    },
  },
  {
    name: 'table_history',
    arguments: { limit: 1 },
    check: (out) => {
      assert.equal(out.transactions.length, 1)
      assert.equal(out.transactions[0].reason, 'a test')
    },
  },
  {
    name: 'table_rollback',
    arguments: { to: '0' },
    check: (out) => assert.equal(out.transactions[0].kind, 'restore'),
  },
  {
    name: 'table_fold',
    get arguments() { return { file: `folded-${process.pid}-${++n_folds}.engram` } },
    check: (out) => assert.ok(out.generation >= 2),
  },
  {
    name: 'table_teach',
    arguments: { facts: [{ question: taught_question, answer: 'Tavik is owned by Brenno.' }] },
    check: ({ taught, facts }) => {
      assert.equal(taught, 1)
      assert.equal(facts[0].after, 'Tavik is owned by Brenno.')
    },
  },
  {
    name: 'table_taught',
    arguments: {},
    check: ({ facts }) => assert.deepEqual(facts.map((fact) => fact.questions), [[taught_question]]),
  },
  {
    name: 'table_forget',
    arguments: { fact: taught_question },
    check: ({ forgotten }) => assert.equal(forgotten.length, 1),
  },
  {
    name: 'metrics',
    arguments: {},
    check: (out) => {
      assert.equal(out.state, 'ready')
      assert.ok(out.since_start.tools.some((tool) => tool.name === 'metrics'))
    },
  },
  {
    name: 'doctor',
    arguments: {},
    check: ({ checks }) => assert.equal(checks.find(({ name }) => name === 'model.answer').status, 'pass'),
  },
]

export function check_result(call, result) {
  assert.ok(!result.isError, JSON.stringify(result.content))
  assert.equal(result.content[0].type, 'text')
  assert.ok(result.content[0].text.length <= 8000)
  call.check(result.structuredContent)
}
