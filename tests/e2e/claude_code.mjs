// Claude Code itself, without an account: `mcp add`, then the health check of `mcp list`, over stdio and
// HTTP (this version's list leaves WebSocket servers out).
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { binary, serve } from './lib/engramd.mjs'

const claude = fileURLToPath(new URL('node_modules/@anthropic-ai/claude-code-linux-x64/claude', import.meta.url))
if (!existsSync(claude)) {
  console.log('skipped: Claude Code is not installed; run install/test.sh')
  process.exit(77)
}

let server
before(async () => { server = await serve() })
after(() => server.stop())

function run(...args) {
  const done = spawnSync(claude, ['mcp', ...args], { encoding: 'utf8', timeout: 100_000,
    env: { ...process.env, DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' } })
  assert.equal(done.status, 0, done.stdout + done.stderr)
  return done.stdout
}

test('connects to engramd over stdio and HTTP', () => {
  run('add', '--scope', 'user', '--transport', 'stdio', 'engramd', '--', binary, '--stdio')
  run('add', '--scope', 'user', '--transport', 'http', 'engramd-http', `${server.url}/mcp`,
    '--header', `Authorization: Bearer ${server.token}`)
  const listed = run('list')
  assert.match(listed, /^engramd: .*Connected/m)
  assert.match(listed, /^engramd-http: .*Connected/m)
})
