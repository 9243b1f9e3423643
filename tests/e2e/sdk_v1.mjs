// The TypeScript SDK, version 1 (what Cline is built on), over stdio. Its client checks every
// structuredContent against the tool's output schema.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { binary, import_or_skip } from './lib/engramd.mjs'
import { check_result, tool_calls } from './lib/tool_calls.mjs'

const { Client } = await import_or_skip('@modelcontextprotocol/sdk/client/index.js')
const { StdioClientTransport } = await import_or_skip('@modelcontextprotocol/sdk/client/stdio.js')

async function with_client(use) {
  const client = new Client({ name: 'e2e', version: '1' })
  await client.connect(new StdioClientTransport({ command: binary, args: ['--stdio'], stderr: 'inherit' }))
  try {
    await use(client)
  } finally {
    await client.close()
  }
}

test('lists and calls every tool', () => with_client(async (client) => {
  const { tools } = await client.listTools()
  assert.deepEqual(tools.map((tool) => tool.name), tool_calls.map((call) => call.name))
  for (const call of tool_calls) {
    check_result(call, await client.callTool({ name: call.name, arguments: call.arguments }))
  }
}))

test('reads resources and prompts', () => with_client(async (client) => {
  await client.callTool(tool_calls[0])  // once the model is there, so is its table
  const { resources } = await client.listResources()
  assert.deepEqual(resources.map((r) => r.uri), ['engramd://model', 'engramd://table', 'engramd://metrics'])
  for (const { uri } of resources) {
    const { contents } = await client.readResource({ uri })
    assert.equal(typeof JSON.parse(contents[0].text), 'object')
  }
  const prompt = await client.getPrompt({
    name: 'retrieval', arguments: { question: 'Who?', context: 'Somebody.' },
  })
  assert.equal(prompt.messages[0].content.text, 'Context:\nSomebody.\n\nQuestion: Who?')
}))

test('progress arrives, and an abort ends the call', () => with_client(async (client) => {
  const stop = new AbortController()
  let n_progress = 0
  const call = client.callTool(
    {
      name: 'chat',
      // Without its end-of-sentence token (1) the model writes until its context is full.
      arguments: { completion: 'Once', max_tokens: 100000, logit_bias: [{ token: 1, bias: -100 }] },
    },
    undefined,
    { signal: stop.signal, onprogress: () => ++n_progress === 1 && stop.abort('enough') },
  )
  await assert.rejects(call)
  assert.equal(n_progress, 1)
  check_result(tool_calls[0], await client.callTool(tool_calls[0]))
}))

test('bad arguments come back as an error to act on', () => with_client(async (client) => {
  const result = await client.callTool({ name: 'chat', arguments: { promt: 'x' } })
  assert.ok(result.isError)
  assert.match(result.content[0].text, /prompt/)
}))
