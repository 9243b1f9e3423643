// The shell commands: what they print where, and their exit codes.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'
import { binary, run, within } from './lib/engramd.mjs'

// No configuration of the person who runs the tests.
const env = { PATH: process.env.PATH, XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), 'engramd-e2e-')) }
const engramd = (args, input) => run(args, { input, env })

test('chat prints the answer alone for scripts, and who served beside it', async () => {
  const { code, stdout, stderr } = await engramd(['chat', 'What is the capital of France?'])
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^[^\n]*Paris[^\n]*\n$/)
  assert.match(stderr, /local engram-nano.*tokens\/s.*Engram hit rate 0\.\d+/)
})

test('chat reads standard input, turns Engram off, and prints JSON', async () => {
  const piped = await engramd(['chat'], 'What is the capital of France?\n')
  assert.match(piped.stdout, /Paris/)
  const off = await engramd(['chat', '--engram', 'off', 'What is the capital of France?'])
  assert.doesNotMatch(off.stdout, /Paris/)
  const json = await engramd(['chat', '--json', '--max-tokens', '2', 'What is the capital of France?'])
  const out = JSON.parse(json.stdout)
  assert.equal(out.finish_reason, 'length')
  assert.equal(out.usage.completion_tokens, 2)
})

test('lookup and gates, for people and for scripts', async () => {
  const lookup = await engramd(['lookup', 'The capital of France is'])
  assert.equal(lookup.code, 0, lookup.stderr)
  assert.match(lookup.stdout, /hit rate/)
  assert.ok(JSON.parse((await engramd(['lookup', '--json', 'Paris'])).stdout).n_lookups > 0)
  const rows = await engramd(['lookup', '--json', '--detail', 'rows', '--layers', '1', 'Paris'])
  assert.ok(JSON.parse(rows.stdout).tokens[0].layers[0].rows.length > 0)
  const gates = await engramd(['gates', 'The capital of France is'])
  assert.equal(gates.code, 0, gates.stderr)
  assert.match(gates.stdout, /dlogp/)
  assert.ok(!gates.stdout.includes('\x1b'), 'no colour without a terminal')
  assert.ok(JSON.parse((await engramd(['gates', '--json', '--top', '2', 'Paris is'])).stdout).top.length === 2)
})

test('gates says which tokens it does not show, and --json has them all', async () => {
  const long = 'word '.repeat(700)
  const { code, stdout, stderr } = await engramd(['gates', '--no-ablation', '--top', '200', long])
  assert.equal(code, 0, stderr)
  const json = JSON.parse((await engramd(['gates', '--no-ablation', '--json', long])).stdout)
  assert.ok(json.n_tokens > 600)
  assert.equal(json.tokens.length, json.n_tokens)
  assert.ok(stdout.includes(`(${json.n_tokens - 512} more tokens: engramd gates --json has them all)`))
  assert.match(stdout, /\n200\. /)
})

test('config prints every value and where it came from', async () => {
  const text = await engramd(['config', '--temperature', '0.5'])
  assert.equal(text.code, 0, text.stderr)
  assert.match(text.stdout, /temperature = 0\.5.*flag/)
  assert.equal(typeof JSON.parse((await engramd(['config', '--json'])).stdout), 'object')
  assert.match((await engramd(['config', '--sample'])).stdout, /temperature/)
})

test('version, help, and help for every command', async () => {
  assert.match((await engramd(['--version'])).stdout, /^engramd \d+\.\d+\.\d+\n$/)
  const help = await engramd(['--help'])
  assert.equal(help.code, 0)
  for (const word of ['SYNOPSIS', 'chat', 'lookup', 'gates', 'config', 'EXIT STATUS', '--temperature']) {
    assert.ok(help.stdout.includes(word), word)
  }
  for (const command of ['chat', 'lookup', 'gates', 'config', 'stdio']) {
    const page = await engramd(['help', command])
    assert.equal(page.code, 0)
    assert.match(page.stdout, /EXAMPLES/)
  }
})

test('mistakes name what was meant and exit with 2', async () => {
  const command = await engramd(['chatt'])
  assert.equal(command.code, 2)
  assert.match(command.stderr, /chat/)
  const flag = await engramd(['chat', '--temprature', '1', 'x'])
  assert.equal(flag.code, 2)
  assert.match(flag.stderr, /--temperature/)
  assert.equal((await engramd(['chat', '--temperature', '9', 'x'])).code, 2)
  assert.equal((await engramd([])).code, 2)
  const folder = mkdtempSync(join(tmpdir(), 'engramd-e2e-'))
  writeFileSync(join(folder, 'config.toml'), '[sampling]\ntemprature = 1\n')
  const file = await engramd(['config', '--config-dir', folder])
  assert.equal(file.code, 2)
  assert.match(file.stderr, /config\.toml:2/)
})

test('engramd alone is one screen', async () => {
  const { code, stdout, stderr } = await engramd([])
  assert.equal(code, 2)
  assert.equal(stdout, '')
  assert.ok(stderr.split('\n').length <= 24, stderr)
  for (const word of ['chat', 'lookup', 'gates', 'table', 'config', '--stdio', 'engramd --help for all options']) {
    assert.ok(stderr.includes(word), word)
  }
})

test('the manual says each thing once', async () => {
  const { stdout } = await engramd(['--help'])
  const paragraphs = stdout.split('\n').filter((line) => line.startsWith('  --'))
  assert.deepEqual(paragraphs.filter((line, i) => paragraphs.indexOf(line) !== i), [])
  assert.equal(stdout.match(/variable and a key of config\.toml|key of config\.toml and an environment/g).length, 1)
})

test('words that a command does not take are refused, not dropped', async () => {
  for (const args of [['config', 'extra', 'words'], ['--stdio', 'extra'], ['lookup', '--token-ids', '5', 'extra'],
    ['config', '--', '--json'], ['--version', 'extra'], ['help', 'chat', 'extra']]) {
    const { code, stdout, stderr } = await engramd(args)
    assert.equal(code, 2, args.join(' '))
    assert.equal(stdout, '')
    assert.match(stderr, /extra|--json|both/)
  }
})

test('output that cannot be written is a failure, whatever the command', async () => {
  for (const args of [['chat', 'hi'], ['chat', '--json', 'hi'], ['lookup', 'hi'], ['gates', 'hi'], ['config'],
    ['table', 'info'], ['--help'], ['help', 'chat'], ['--version']]) {
    const child = spawn(binary, args, { stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'], env })
    let stderr = ''
    child.stderr.on('data', (text) => (stderr += text))
    const code = await within(new Promise((resolve) => child.on('close', resolve)), 'exit')
    assert.equal(code, 1, args.join(' '))
    assert.match(stderr, /standard output could not be written/)
  }
})

// A model whose tokenizer is a pipe that nobody writes to: opening it never ends.
function model_that_loads_for_ever() {
  const folder = mkdtempSync(join(tmpdir(), 'engramd-model-'))
  const model = join(dirname(fileURLToPath(import.meta.url)), '../../install/models/engram-nano')
  for (const name of readdirSync(model)) {
    if (/\.(json|safetensors)$/.test(name)) copyFileSync(join(model, name), join(folder, name))
  }
  rmSync(join(folder, 'tokenizer.json'))
  execFileSync('mkfifo', [join(folder, 'tokenizer.json')])
  return folder
}

// Starts a program, interrupts it once its model loads, and returns how it ended.
async function interrupt_loading(command, args, { text, interrupt }) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], env })
  const exit = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })))
  let screen = ''
  const seen = (part) => within(new Promise((resolve) => {
    const look = () => screen.includes(part) && resolve()
    for (const stream of [child.stdout, child.stderr]) stream.on('data', look)
    look()
  }), part)
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => (screen += bytes))
  try {
    if (text) {
      await seen('> ')
      child.stdin.write(text)
    }
    await seen('loading ngram table')
    await interrupt(child)
    return await within(exit, `exit after ${screen}`, 10_000)
  } finally {
    child.kill('SIGKILL')
  }
}

test('Ctrl-C while the model loads ends every command with 130', async () => {
  const folder = model_that_loads_for_ever()
  const options = ['--log-level', 'info', '--model', folder]
  const sigint = 1n << 1n
  const interrupt = async (child) => {
    const caught = () => /SigCgt:\s*([0-9a-f]+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]
    while (!(BigInt(`0x${caught()}`) & sigint)) await new Promise(setImmediate)
    child.kill('SIGINT')
  }
  for (const args of [['chat', 'hi'], ['chat', '--json', 'hi'], ['lookup', 'hi'], ['gates', 'hi']]) {
    const how = await interrupt_loading(binary, [...args, ...options], { interrupt })
    assert.deepEqual(how, { code: 130, signal: null }, args.join(' '))
  }
  // A conversation needs a terminal, which turns the character into the signal.
  const conversation = ['-qec', `'${binary}' chat ${options.join(' ')}`, '/dev/null']
  const how = await interrupt_loading('script', conversation,
    { text: 'hi\n', interrupt: (child) => child.stdin.write('\x03') })
  assert.equal(how.code, 130)
  rmSync(folder, { recursive: true })
})

test('a model that is not there exits with 1 and says where it looked', async () => {
  const { code, stderr } = await engramd(['chat', '--model', './no-such', 'x'])
  assert.equal(code, 1)
  assert.match(stderr, /no-such/)
})

test('every set of the users\' files loads as it is and chats', async () => {
  const sets = join(dirname(fileURLToPath(import.meta.url)), '../data/configs')
  let n = 0
  for (const set of readdirSync(sets, { withFileTypes: true }).filter((entry) => entry.isDirectory())) {
    const folder = ['--config-dir', join(sets, set.name)]
    const { code, stdout, stderr } = await engramd(['chat', ...folder, 'What is the capital of France?'])
    assert.equal(code, 0, `${set.name}: ${stderr}`)
    assert.match(stdout, /Paris/)
    assert.equal((await engramd(['config', ...folder])).code, 0)
    ++n
  }
  assert.ok(n >= 5)
})

test('what a file asks for and nobody can honour ends every command', async () => {
  const { code, stderr } = await engramd(['chat', '--engram-deterministic-addressing', 'off', 'hi'])
  assert.equal(code, 2)
  assert.match(stderr, /deterministic.addressing/)
})

test('what differs from the model is told once, by every command that opens it', async () => {
  const hello = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }) + '\n'
  const asked = ['--engram-ngram-order', '5']
  const misspelt = { ...env, ENGRAMD_LOG_LEVLE: 'info' }
  for (const [args, input] of [[['chat', 'hi']], [['lookup', 'hi']], [['gates', 'hi']], [['--stdio'], hello]]) {
    const { code, stdout, stderr } = await run([...args, ...asked], { input, env: misspelt })
    assert.equal(code, 0, stderr)
    const lines = stderr.split('\n').filter((line) => line.includes(' engramd warn'))
    assert.equal(lines.length, 2, `${args[0]}: ${stderr}`)
    assert.match(lines[0], /ENGRAMD_LOG_LEVLE.*nearest known name is ENGRAMD_LOG_LEVEL/)
    assert.match(lines[1], /ngram-order.*says 5.*has 3/)
    if (input) assert.deepEqual(JSON.parse(stdout), { jsonrpc: '2.0', id: 1, result: {} })
    const silent = await run([...args, ...asked, '--log-level', 'error'], { input, env: misspelt })
    assert.doesNotMatch(silent.stderr, /ENGRAMD_LOG_LEVLE|ngram-order/)
  }
})

test('a model in the Hugging Face cache is opened, and what is odd in its files is told', async () => {
  const model = mkdtempSync(join(tmpdir(), 'engramd-cache-'))
  const snapshot = join(model, 'snapshots', '0123abc')
  mkdirSync(join(model, 'blobs'))
  mkdirSync(snapshot, { recursive: true })
  const bundled = join(dirname(fileURLToPath(import.meta.url)), '../../install/models/engram-nano')
  const add = (name, bytes) => {
    writeFileSync(join(model, 'blobs', `b10b-${name}`), bytes)
    symlinkSync(`../../blobs/b10b-${name}`, join(snapshot, name))
  }
  for (const name of readdirSync(bundled).filter((name) => name.endsWith('.json'))) {
    add(name, readFileSync(join(bundled, name)))
  }
  const weights = readFileSync(join(bundled, 'model.safetensors'))
  const header = JSON.parse(weights.subarray(8, 8 + Number(weights.readBigUInt64LE())).toString())
  delete header.__metadata__
  const shard = 'model-00001-of-00001.safetensors'
  add(shard, weights)
  const weight_map = Object.fromEntries(Object.keys(header).map((tensor) => [tensor, shard]))
  add('model.safetensors.index.json', JSON.stringify({ metadata: { total_size: 1 }, weight_map }))
  const { code, stdout, stderr } = await engramd(['chat', '--model', snapshot, 'What is the capital of France?'])
  assert.equal(code, 0, stderr)
  assert.match(stdout, /Paris/)
  assert.equal(stderr.match(/engramd warning: .*total_size says 1 bytes/g)?.length, 1, stderr)
})

test('a table is imported, checked, described, and damage is found', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'engramd-table-'))
  const file = join(folder, 'table.engram')
  const model = join(dirname(fileURLToPath(import.meta.url)), '../../install/models/engram-nano')
  const imported = await engramd(['table', 'import', '--quiet', model, file])
  assert.equal(imported.code, 0, imported.stderr)
  assert.equal((await engramd(['table', 'verify', file, model])).code, 0)
  assert.match((await engramd(['table', 'info', file])).stdout, /orders 2\.\.3, 4 heads/)
  const bytes = readFileSync(file)
  bytes[bytes.length >> 1] ^= 1
  writeFileSync(file, bytes)
  const damaged = await engramd(['table', 'verify', file])
  assert.equal(damaged.code, 1, damaged.stdout)
})
