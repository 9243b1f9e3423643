// `engramd doctor` on a clean home, with what goes wrong in real ones, one thing after the other.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { binary, run, serve } from './lib/engramd.mjs'

const key = 'sk-doctor-0123456789'
const home = () => mkdtempSync(join(tmpdir(), 'engramd-doctor-'))

// The checks by name, and the exit code.
async function doctor(args = [], env = {}) {
  const clean = { PATH: process.env.PATH, HOME: home(), ...env }
  const { code, stdout, stderr } = await run(['doctor', '--json', ...args], { env: clean })
  const { checks } = JSON.parse(stdout)
  for (const check of checks) {
    assert.deepEqual(Object.keys(check).sort(), ['detail', 'name', 'remedy', 'status'])
    assert.ok(['pass', 'warn', 'fail', 'not checked'].includes(check.status))
    assert.equal(check.remedy !== '', ['warn', 'fail'].includes(check.status), JSON.stringify(check))
  }
  assert.equal(code, checks.some((check) => check.status === 'fail') ? 1 : 0)
  assert.ok(!(stdout + stderr).includes(key))
  return Object.fromEntries(checks.map((check) => [check.name, check]))
}

async function remote(answer) {
  const server = http.createServer(answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => server.close())
  return { TAOTOKEN_API_KEY: key, ENGRAMD_API_BASE_URL: `http://127.0.0.1:${server.address().port}` }
}
const json = (status, body) => (request, response) => {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}
const models = { object: 'list', data: [{ id: 'deepseek-flash' }, { id: 'deepseek-v4-pro' }] }

test('a clean home is well, and the text says the same', async () => {
  const checks = await doctor()
  assert.equal(checks['model.answer'].status, 'pass')
  assert.match(checks['table.hit_rate'].detail, /^\d+ % of the looked-up rows$/)
  assert.equal(checks['remote.models'].status, 'not checked')
  const { code, stdout } = await run(['doctor'], { env: { PATH: process.env.PATH, HOME: home() } })
  assert.equal(code, 0)
  for (const [name, { status }] of Object.entries(checks)) {
    assert.match(stdout, new RegExp(`^${status} +${name.replaceAll('.', '\\.')} `, 'm'))
  }
})

test('a configuration that cannot be read is told, not an end', async () => {
  const folder = home()
  writeFileSync(join(folder, 'config.toml'), '[api]\nbase_ulr = "https://example.org"\ntimeout = "soon"\n')
  const checks = await doctor(['--config-dir', folder])
  assert.equal(checks['configuration.files'].status, 'fail')
  assert.match(checks['configuration.files'].detail, /config\.toml:\d/)
})

test('a model that is broken, or nowhere', async () => {
  const folder = home()
  writeFileSync(join(folder, 'config.json'), '{}')
  writeFileSync(join(folder, 'model.safetensors'), '')
  assert.equal((await doctor(['--model', folder]))['model.answer'].status, 'fail')
  assert.equal((await doctor(['--model', '/nowhere/at/all']))['model.files'].status, 'fail')
  assert.equal((await doctor(['--model', 'deepseek-flash']))['model.files'].status, 'warn')
})

test('a remote that is well', async () => {
  const env = await remote((request, response) => {
    assert.equal(request.headers.authorization, `Bearer ${key}`)
    json(request.url === '/v1/models' ? 200 : 404, models)(request, response)
  })
  const checks = await doctor(['--api-default-model', 'deepseek-flash', '--api-fallback-model', 'deepseek-v4-por'], env)
  assert.equal(checks['remote.key'].status, 'pass')
  assert.match(checks['remote.models'].detail, /^2 models in \d+ ms from http:.*\/v1$/)
  assert.equal(checks['api.default_model'].status, 'pass')
  assert.equal(checks['api.fallback_model'].status, 'fail')
  assert.match(checks['api.fallback_model'].detail, /deepseek-v4-pro/)
  assert.equal(checks['remote.answer'].status, 'not checked')
  const retired = await doctor(['--api-default-model', 'deepseek-chat'], env)
  assert.equal(retired['api.default_model'].status, 'warn')
})

test('the API beside /v1 is found', async () => {
  const env = await remote((request, response) =>
    json(request.url === '/models' ? 200 : 404, models)(request, response))
  assert.equal((await doctor([], env))['remote.models'].status, 'pass')
})

const ill = [
  ['401', json(401, { error: { message: 'Incorrect API key provided' } }), /401: Incorrect API key/, /TAOTOKEN_API_KEY/],
  ['402', json(402, { error: { message: 'Insufficient Balance' } }), /402/, /top up/],
  ['404', json(404, {}), /404/, /base_url/],
  ['a web page', (request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'), /web page/, /base_url/],
  ['something else', json(200, { hello: 1 }), /no list of models/, /base_url/],
  ['TLS', (request, response) => response.end(), /TLS/, /http:\/\//, 'https'],
]
for (const [name, answer, detail, remedy, scheme = 'http'] of ill) {
  test(`a remote that is ill: ${name}`, async () => {
    const env = await remote(answer)
    env.ENGRAMD_API_BASE_URL = env.ENGRAMD_API_BASE_URL.replace(/^http/, scheme)
    const { 'remote.models': check } = await doctor([], env)
    assert.equal(check.status, 'fail')
    assert.match(check.detail, detail)
    assert.match(check.remedy, remedy)
  })
}

test('a key that would cross the network in clear', async () => {
  const checks = await doctor(['--api-allow-remote', 'false'],
    { TAOTOKEN_API_KEY: key, ENGRAMD_API_BASE_URL: 'http://api.example.org' })
  assert.equal(checks['remote.base_url'].status, 'warn')
  assert.equal(checks['remote.models'].status, 'not checked')
})

test('nobody there, and a key that is broken', async () => {
  const checks = await doctor([], { TAOTOKEN_API_KEY: `${key}\u00e4`, ENGRAMD_API_BASE_URL: 'http://127.0.0.1:1' })
  assert.equal(checks['remote.key'].status, 'fail')
  assert.equal(checks['remote.models'].status, 'not checked')
  const refused = await doctor([], { ENGRAMD_API_BASE_URL: 'http://127.0.0.1:1' })
  assert.match(refused['remote.models'].detail, /Connection refused/)
})

test('--live lets a second engramd answer', async () => {
  const server = await serve()
  after(() => server.stop())
  const env = { TAOTOKEN_API_KEY: server.token, ENGRAMD_API_BASE_URL: server.url }
  const checks = await doctor(['--live', '--api-default-model', 'engram-nano'], env)
  assert.equal(checks['remote.answer'].status, 'pass')
  assert.match(checks['remote.answer'].detail, /^engram-nano answered in \d+ ms$/)
})

test('clients that launch engramd, or try to', async () => {
  const HOME = home()
  const settings = (command) => JSON.stringify({ mcpServers: { engramd: { command, args: ['--stdio'] } } })
  mkdirSync(join(HOME, '.cursor'))
  writeFileSync(join(HOME, '.cursor/mcp.json'), settings('/nowhere/engramd'))
  writeFileSync(join(HOME, '.claude.json'), settings(binary))
  const cline = join(HOME, 'cline.json')
  writeFileSync(cline, '{ // mine')
  const checks = await doctor([], { HOME, CLINE_MCP_SETTINGS_PATH: cline })
  assert.equal(checks['client.claude-code'].status, 'pass')
  assert.equal(checks['client.cursor'].status, 'fail')
  assert.match(checks['client.cursor'].remedy, /engramd client-config cursor --write/)
  assert.equal(checks['client.cline'].status, 'warn')
})
