// The TypeScript SDK, version 2, over stdio, in both protocol eras.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { binary, import_or_skip } from './lib/engramd.mjs'
import { check_result, tool_calls } from './lib/tool_calls.mjs'

const { Client } = await import_or_skip('@modelcontextprotocol/client')
const { StdioClientTransport } = await import_or_skip('@modelcontextprotocol/client/stdio')

for (const mode of ['legacy', 'auto', { pin: '2026-07-28' }]) {
  test(`lists and calls every tool, negotiating ${JSON.stringify(mode)}`, async () => {
    const client = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode } })
    await client.connect(new StdioClientTransport({ command: binary, args: ['--stdio'], stderr: 'inherit' }))
    try {
      const { tools } = await client.listTools()
      assert.deepEqual(tools.map((tool) => tool.name), tool_calls.map((call) => call.name))
      for (const call of tool_calls) {
        check_result(call, await client.callTool({ name: call.name, arguments: call.arguments }))
      }
      const { contents } = await client.readResource({ uri: 'engramd://model' })
      assert.equal(JSON.parse(contents[0].text).model.name, 'engram-nano')
      assert.equal((await client.listPrompts()).prompts[0].name, 'retrieval')
    } finally {
      await client.close()
    }
  })
}
