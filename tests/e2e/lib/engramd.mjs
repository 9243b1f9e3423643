// A child engramd and its lines, for black-box tests. Every byte on stdout must be protocol: a line
// that is not a JSON-RPC message fails the test that reads it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const binary = process.argv[2] ?? process.env.ENGRAMD_BINARY
if (!binary || !existsSync(binary)) {
  console.error('usage: node TEST.mjs /path/to/engramd')
  process.exit(2)
}

export const data = fileURLToPath(new URL('../../data/engram-nano/', import.meta.url))

// Neither the configuration nor the edits of the person who runs the tests. Clients that start the
// server themselves pass HOME on.
process.env.HOME = mkdtempSync(join(tmpdir(), 'engramd-e2e-home-'))
delete process.env.XDG_CONFIG_HOME
delete process.env.XDG_STATE_HOME
// Nor the remote that this person uses.
delete process.env.TAOTOKEN_BASE_URL
delete process.env.TAOTOKEN_API_KEY
// A daemon that a test has started does not outlive it, and takes no port that somebody else wants.
process.env.ENGRAMD_SERVER_PORT = '0'
process.on('exit', () => {
  const pid = daemon_pid()
  if (pid) try { process.kill(pid, 'SIGKILL') } catch {}
  rmSync(process.env.HOME, { recursive: true, force: true })
})

export const state_folder = join(process.env.HOME, '.local/state/engramd')

// Of the daemon that has been started for this test's user; undefined: none was.
export function daemon_pid() {
  try {
    return Number(readFileSync(join(state_folder, 'engramd.lock'), 'utf8'))
  } catch {
    return undefined
  }
}

export function is_running(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const deadline_ms = 60_000

// Waits for a promise, but not for ever.
export function within(promise, what, ms = deadline_ms) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} within ${ms} ms`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

export function check_message(message) {
  assert.equal(typeof message, 'object')
  assert.equal(message.jsonrpc, '2.0')
  const is_answer = 'result' in message !== 'error' in message
  assert.ok('method' in message || is_answer, JSON.stringify(message))
  return message
}

export class Engramd {
  constructor({ args = ['--stdio', '--standalone'], stdin = 'pipe', stdout = 'pipe', env, command = binary } = {}) {
    this.child = spawn(command, args, { stdio: [stdin, stdout, 'pipe'], env })
    this.messages = []
    this.waiting = []
    this.stderr = ''
    this.raw = ''
    this.child.stderr.on('data', (bytes) => (this.stderr += bytes))
    this.child.stdin?.on('error', () => {}) // a child that ended does not read
    this.exit = new Promise((resolve) =>
      this.child.on('close', (code, signal) => resolve({ code, signal })))
    if (this.child.stdout) this.read_lines(this.child.stdout)
  }

  read_lines(stream) {
    let rest = ''
    stream.setEncoding('utf8')
    stream.on('data', (text) => {
      this.raw += text
      const lines = (rest + text).split('\n')
      rest = lines.pop()
      for (const line of lines) this.deliver(line)
    })
  }

  deliver(line) {
    let message
    try {
      message = check_message(JSON.parse(line))
    } catch (error) {
      message = { not_protocol: line, error }
    }
    const waiter = this.waiting.findIndex((entry) => entry.wanted(message))
    if (waiter >= 0) this.waiting.splice(waiter, 1)[0].resolve(message)
    else this.messages.push(message)
  }

  send_raw(bytes) {
    this.child.stdin.write(bytes)
  }

  send(message) {
    this.send_raw(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n')
  }

  // The next message that `wanted` accepts; lines that are no protocol are always accepted.
  async next(wanted = () => true, what = 'message') {
    const accepts = (message) => 'not_protocol' in message || wanted(message)
    const index = this.messages.findIndex(accepts)
    const message = index >= 0
      ? this.messages.splice(index, 1)[0]
      : await within(new Promise((resolve) => this.waiting.push({ wanted: accepts, resolve })), what)
    assert.ok(!('not_protocol' in message), `not protocol: ${message.not_protocol}`)
    return message
  }

  reply(id) {
    return this.next((m) => !('method' in m) && m.id === id, `reply to ${JSON.stringify(id)}`)
  }

  async request(id, method, params) {
    this.send({ id, method, params })
    return this.reply(id)
  }

  async initialize(version = '2025-11-25') {
    const answer = await this.request('init', 'initialize', {
      protocolVersion: version,
      capabilities: {},
      clientInfo: { name: 'e2e', version: '1' },
    })
    this.send({ method: 'notifications/initialized' })
    return answer
  }

  call(id, name, args = {}, meta) {
    return this.request(id, 'tools/call', { name, arguments: args, ...(meta && { _meta: meta }) })
  }

  // Ends the input and waits: everything that was asked is answered before the exit.
  async finish() {
    this.child.stdin.end()
    return within(this.exit, 'exit')
  }
}

// `engramd serve` on a free port, once it listens.
export async function serve(args = [], env = process.env) {
  const child = spawn(binary, ['serve', ...args], { stdio: ['ignore', 'pipe', 'pipe'], env })
  const exit = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })))
  let stdout = ''
  const server = { child, exit, stderr: '' }
  child.stderr.setEncoding('utf8').on('data', (text) => (server.stderr += text))
  const listening = new Promise((resolve, reject) => {
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text
      const found = /listening on (http:\/\/\S+:\d+)\/mcp/.exec(stdout)
      if (found) resolve(found[1])
    })
    exit.then(({ code }) => reject(new Error(`engramd serve ended with ${code}: ${server.stderr}`)))
  })
  server.url = await within(listening, 'listening daemon')
  server.token = args.includes('--no-auth') ? '' : readFileSync(join(env.XDG_STATE_HOME ? join(env.XDG_STATE_HOME, 'engramd') : state_folder, 'token'), 'utf8').trim()
  server.headers = server.token ? { Authorization: `Bearer ${server.token}` } : {}
  server.stop = async (signal = 'SIGTERM') => {
    child.kill(signal)
    return within(exit, 'exit')
  }
  return server
}

export async function run(args, { input = '', env } = {}) {
  const child = spawn(binary, args, { stdio: ['pipe', 'pipe', 'pipe'], env })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const code = await within(new Promise((resolve) => child.on('close', resolve)), 'exit')
  return { code, stdout, stderr }
}

// For tests that need packages: exit code 77 is ctest's "skipped".
export async function import_or_skip(name) {
  try {
    return await import(name)
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    console.log(`skipped: ${name} is not installed; run install/test.sh`)
    process.exit(77)
  }
}
