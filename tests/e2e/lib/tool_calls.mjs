// One call per tool, the same for every client, and what its answer must show.
import assert from 'node:assert/strict'

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
    name: 'metrics',
    arguments: {},
    check: (out) => {
      assert.equal(out.state, 'ready')
      assert.ok(out.since_start.tools.some((tool) => tool.name === 'metrics'))
    },
  },
]

export function check_result(call, result) {
  assert.ok(!result.isError, JSON.stringify(result.content))
  assert.equal(result.content[0].type, 'text')
  assert.ok(result.content[0].text.length <= 8000)
  call.check(result.structuredContent)
}
