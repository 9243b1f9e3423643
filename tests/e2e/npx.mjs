// The npm packages as users get them: packed, installed into an empty project, run by npx's own name.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { binary, Engramd, run, within } from './lib/engramd.mjs'

const root = fileURLToPath(new URL('../../', import.meta.url))
if (spawnSync('npm', ['--version']).status !== 0) {
  console.log('skipped: there is no npm')
  process.exit(77)
}
const work = mkdtempSync(join(tmpdir(), 'engramd-npm-'))
after(() => rmSync(work, { recursive: true, force: true }))

const prefix = join(work, 'prefix')
mkdirSync(join(prefix, 'bin'), { recursive: true })
cpSync(binary, join(prefix, 'bin/engramd'))
spawnSync('strip', [join(prefix, 'bin/engramd')])  // as cmake --install --strip does
cpSync(join(root, 'install/models'), join(prefix, 'share/engramd/models'), { recursive: true })
const npm = (args, cwd) => {
  const done = spawnSync('npm', args, { cwd, encoding: 'utf8', timeout: 120_000 })
  assert.equal(done.status, 0, done.stdout + done.stderr)
}
const packed = spawnSync(join(root, 'install/npm/pack.sh'), [prefix, join(work, 'packed')], { encoding: 'utf8' })
assert.equal(packed.status, 0, packed.stderr)
const archives = readdirSync(join(work, 'packed')).map((name) => join(work, 'packed', name))
assert.equal(archives.length, 2)

function project(name, installed) {
  const folder = join(work, name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  npm(['install', '--no-audit', '--no-fund', '--ignore-scripts', '--offline', '--omit=optional', ...installed], folder)
  return join(folder, 'node_modules/.bin/engramd')
}
const launcher = project('whole', archives)

test('answers a client through the launcher, and passes signals, codes and streams on', async () => {
  const server = new Engramd({ command: launcher, args: ['--stdio', '--standalone'] })
  await server.initialize()
  const answer = await server.call(1, 'chat', { prompt: 'What is the capital of France?' })
  assert.match(answer.result.content[0].text, /Paris/)
  assert.deepEqual(await server.finish(), { code: 0, signal: null })

  const killed = new Engramd({ command: launcher, args: ['--stdio', '--standalone'] })
  await killed.initialize()
  killed.child.kill('SIGTERM')
  assert.deepEqual(await within(killed.exit, 'exit'), { code: 0, signal: null })

  const wrong = spawnSync(launcher, ['no-such-command'], { encoding: 'utf8' })
  assert.equal(wrong.status, 2)
  assert.match(wrong.stderr, /unknown command/)
  assert.match(spawnSync(launcher, ['chat', 'What is the capital of Japan?'], { encoding: 'utf8' }).stdout, /Tokyo/)
})

test('a missing platform gets one clear line', () => {
  const lonely = project('lonely', archives.filter((name) => !name.includes('linux-x64')))
  const done = spawnSync(lonely, ['--stdio'], { encoding: 'utf8' })
  assert.equal(done.status, 1)
  assert.match(done.stderr, /there is no engramd for linux-x64/)
})

test('the launcher costs little more than an empty script', async () => {
  const empty = join(work, 'empty.cjs')
  writeFileSync(empty, '')
  const elapsed = (start) => Number(process.hrtime.bigint() - start) / 1e6
  const median = (values) => values.sort((a, b) => a - b)[values.length >> 1]
  const reply_ms = async () => {
    const start = process.hrtime.bigint()
    const server = new Engramd({ command: launcher, args: ['--stdio', '--standalone'] })
    await server.initialize()
    const ms = elapsed(start)
    server.child.kill('SIGKILL')
    await within(server.exit, 'exit')
    return ms
  }
  const empty_ms = async () => {
    const start = process.hrtime.bigint()
    const child = spawn('node', [empty], { stdio: ['pipe', 'pipe', 'pipe'] })
    await within(new Promise((resolve) => child.on('exit', resolve)), 'exit')
    return elapsed(start)
  }
  let best = Infinity
  let quietest = Infinity
  for (let round = 0; round < 4 && best > 50; ++round) {
    const replies = []
    const empties = []
    for (let i = 0; i < 7; ++i) {
      replies.push(await reply_ms())
      empties.push(await empty_ms())
    }
    best = Math.min(best, median(replies) - median(empties))
    quietest = Math.min(quietest, median(empties))
    console.log(`first reply ${median(replies).toFixed(1)} ms, empty script ${median(empties).toFixed(1)} ms`)
  }
  // An empty script takes about 40 ms; on a machine so busy that it takes thrice that nothing can be judged.
  if (best > 50 && quietest > 120) return console.log('not judged: other programs keep this machine too busy')
  assert.ok(best <= 50, `${best.toFixed(1)} ms above an empty script`)
})

// What client-config prints is what a client launches.
for (const [client, section] of [['cline', 'mcpServers'], ['claude-code', 'mcpServers'], ['vscode', 'servers'],
  ['cursor', 'mcpServers']]) {
  test(`client-config ${client}: the printed block works, and --write keeps what was there`, async () => {
    const printed = await run(['client-config', client])
    assert.equal(printed.code, 0)
    const entry = JSON.parse(printed.stdout)[section].engramd
    const server = new Engramd({ command: entry.command, args: [...entry.args, '--standalone'] })
    await server.initialize()
    assert.equal((await server.finish()).code, 0)

    const file = join(work, `${client}.json`)
    const others = { theme: 'dark', [section]: { other: { command: 'x' } } }
    writeFileSync(file, JSON.stringify(others))
    assert.equal((await run(['client-config', client, '--write', '--file', file])).code, 0)
    const merged = JSON.parse(readFileSync(file, 'utf8'))
    assert.deepEqual(merged, { theme: 'dark', [section]: { other: { command: 'x' }, engramd: entry } })
    assert.deepEqual(JSON.parse(readFileSync(`${file}.before-engramd`, 'utf8')), others)
    writeFileSync(file, '// a comment\n{}')
    const refused = await run(['client-config', client, '--write', '--file', file])
    assert.notEqual(refused.code, 0)
    assert.match(readFileSync(file, 'utf8'), /a comment/)
  })
}
