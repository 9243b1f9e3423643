// `engramd doctor` on a clean home, with what goes wrong in real ones, one thing after the other.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { tls, upstream as fake } from './lib/remote.mjs'
import { binary, Engramd, run, serve } from './lib/engramd.mjs'

const key = 'sk-doctor-0123456789'
const home = () => mkdtempSync(join(tmpdir(), 'engramd-doctor-'))

// The checks by name, and the exit code.
async function doctor(args = [], env = {}) {
  const clean = { PATH: process.env.PATH, HOME: home(), ENGRAMD_SERVER_PORT: '0', ...env }
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
  const { code, stdout } = await run(['doctor'], { env: { PATH: process.env.PATH, HOME: home(), ENGRAMD_SERVER_PORT: '0' } })
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
  assert.match(retired['api.default_model'].detail, /deepseek-flash is asked instead/)
  assert.match(checks['remote.dns'].detail, /^127\.0\.0\.1 in \d+ ms$/)
  assert.equal(checks['remote.tcp'].status, 'pass')
  assert.match(checks['remote.proxy'].detail, /none/)
  assert.equal(checks['remote.tls'].status, 'not checked')
  assert.match(checks['remote.budget'].detail, /^0 tokens today/)
})

test('TLS is told with its certificate, and what is wrong with it', async () => {
  const secure = await fake((response, request) => json(200, models)(request, response), { secure: true })
  const env = { TAOTOKEN_API_KEY: key, ENGRAMD_API_BASE_URL: secure.url('localhost') + '/v1', SSL_CERT_FILE: tls + 'authority.pem' }
  const checks = await doctor([], env)
  assert.match(checks['remote.tls'].detail, /^TLSv1\.3, issued by engramd tests, \d+ days left in \d+ ms$/)
  assert.equal(checks['remote.models'].status, 'pass')
  const stranger = await doctor([], { ...env, SSL_CERT_FILE: '' })
  assert.equal(stranger['remote.tcp'].status, 'pass')
  assert.equal(stranger['remote.tls'].status, 'fail')
  assert.match(stranger['remote.tls'].remedy, /SSL_CERT_FILE/)
  assert.equal(stranger['remote.models'].status, 'not checked')
})

test('a proxy on the way: refusing, dead, odd', async () => {
  const proxy = http.createServer().listen(0, '127.0.0.1')
  proxy.on('connect', (request, socket) => socket.end('HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n'))
  await once(proxy, 'listening')
  after(() => proxy.close())
  const env = { TAOTOKEN_API_KEY: key, ENGRAMD_API_BASE_URL: 'https://remote.test/v1' }
  const refusing = await doctor([], { ...env, HTTPS_PROXY: `http://127.0.0.1:${proxy.address().port}` })
  assert.deepEqual(['dns', 'tcp', 'proxy', 'tls'].map((step) => refusing[`remote.${step}`].status), ['pass', 'pass', 'fail', 'not checked'])
  assert.match(refusing['remote.proxy'].remedy, /NO_PROXY/)
  const dead = await doctor([], { ...env, HTTPS_PROXY: 'http://127.0.0.1:1' })
  assert.match(dead['remote.tcp'].detail, /the proxy 127\.0\.0\.1:1: Connection refused/)
  const odd = await doctor([], { ...env, HTTPS_PROXY: 'socks5://127.0.0.1:1' })
  assert.match(odd['remote.proxy'].detail, /socks5:\/\/ is not supported/)
})

test('the API beside /v1 is found', async () => {
  const env = await remote((request, response) =>
    json(request.url === '/models' ? 200 : 404, models)(request, response))
  assert.equal((await doctor([], env))['remote.models'].status, 'pass')
})

const ill = [
  ['401', json(401, { error: { message: 'Incorrect API key provided' } }), /401: Incorrect API key/, /api\.api_key_env/],
  ['402', json(402, { error: { message: 'Insufficient Balance' } }), /402/, /top up/],
  ['404', json(404, {}), /404/, /base_url/],
  ['a web page', (request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'), /web page/, /base_url/],
  ['something else', json(200, { hello: 1 }), /no list of models/, /base_url/],
  ['TLS', (request, response) => response.end(), /TLS/, /http:\/\//, 'https', 'remote.tls'],
]
for (const [name, answer, detail, remedy, scheme = 'http', failing = 'remote.models'] of ill) {
  test(`a remote that is ill: ${name}`, async () => {
    const env = await remote(answer)
    env.ENGRAMD_API_BASE_URL = env.ENGRAMD_API_BASE_URL.replace(/^http/, scheme)
    const { [failing]: check } = await doctor([], env)
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
  assert.match(refused['remote.tcp'].detail, /Connection refused/)
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

test('clients on other systems, and values that have to agree', async () => {
  const HOME = home()
  const APPDATA = home()
  const entry = (base_url, more = {}) => ({ mcpServers: { taotoken: { command: 'npx', args: ['-y', 'taotoken/mcp-server'],
    env: { TAOTOKEN_API_KEY: ` "${key}"\n`, TAOTOKEN_BASE_URL: base_url }, ...more } } })
  const cline = 'Code/User/globalStorage/saoudrizwan.claude-dev/settings'
  mkdirSync(join(APPDATA, cline), { recursive: true })
  writeFileSync(join(APPDATA, cline, 'cline_mcp_settings.json'), JSON.stringify(entry('https://taotoken.net/api/')))
  mkdirSync(join(HOME, '.claude'))
  const claude = (values) => writeFileSync(join(HOME, '.claude/settings.json'), JSON.stringify(values))
  const env = { HOME, APPDATA, TAOTOKEN_API_KEY: key, ENGRAMD_API_BASE_URL: 'https://taotoken.net/api',
    ENGRAMD_API_DEFAULT_MODEL: 'deepseek-flash', ENGRAMD_API_ALLOW_REMOTE: 'false' }
  claude({ apiKey: key, baseUrl: 'https://taotoken.net/api', model: 'deepseek-flash' })
  const agreeing = await doctor([], env)
  assert.match(agreeing['client.values'].detail, /of 3 places agree/)
  assert.match(agreeing['client.cline'].detail, /does not name engramd/)
  claude({ apiKey: 'sk-an-old-one', baseUrl: 'https://elsewhere.example/v1', model: 'deepseek-chat' })
  const different = await doctor([], env)
  assert.equal(different['client.values'].status, 'warn')
  assert.match(different['client.values'].detail, /key of .*settings\.json; base URL of .*settings\.json; model of .*settings\.json$/)
  assert.ok(!JSON.stringify(different).includes('sk-an-old-one'))
  const mac = 'Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings'
  mkdirSync(join(HOME, mac), { recursive: true })
  writeFileSync(join(HOME, mac, 'cline_mcp_settings.json'), JSON.stringify({ mcpServers: { engramd: { command: binary } } }))
  assert.equal((await doctor([], env))['client.cline'].status, 'pass')
})

test('the machine: a port that somebody has, a token that others can read', async () => {
  const other = http.createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  after(() => other.close())
  const HOME = home()
  mkdirSync(join(HOME, '.local/state/engramd'), { recursive: true, mode: 0o700 })
  writeFileSync(join(HOME, '.local/state/engramd/token'), 'x', { mode: 0o644 })
  const checks = await doctor(['--port', String(other.address().port)], { HOME })
  assert.equal(checks['machine.port'].status, 'warn')
  assert.equal(checks['machine.token_file'].status, 'fail')
  assert.match(checks['machine.memory'].detail, /of its own .* mapped from files; the machine has/)
  assert.match(checks['table.layout'].detail, /orders 2 to 3, .* as tokenizer\.json has them/)
})

const messages = [
  ['API Error: 401 {"error":{"message":"Incorrect API key provided"}}', /^401:/],
  ['local proxy failed: connect ECONNREFUSED 127.0.0.1:7890', /^local proxy failed:/],
  ["TypeError: Cannot read properties of undefined (reading 'choices')", /^reading 'choices':/],
  ['OAuth token has expired. Please obtain a new token', /^OAuth token expired:/],
  ['The model `deepseek-chat` does not exist', /^model not found:/],
  ['Request timed out.', /^time-out:/],
  ['404 page not found: /v1/v1/chat/completions', /^doubled \/v1:/],
  ['connect ECONNREFUSED 127.0.0.1:4010', /^not reachable:/],
  ["Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON", /^HTML instead of JSON:/],
]
test('well-known failures are recognised by their words', async () => {
  for (const [message, expected] of messages) {
    const { code, stdout } = await run(['doctor', '--explain', message], { env: process.env })
    assert.equal(code, 0)
    assert.match(stdout, expected)
    assert.match(stdout, /\n-> \S/)
  }
  assert.equal((await run(['doctor', '--explain', 'hello'], { env: process.env })).code, 1)
})

test('the same as an MCP tool, beside what else is asked', async () => {
  const env = await remote((request, response) => json(200, models)(request, response))
  const one = new Engramd({ env: { ...process.env, ...env, ENGRAMD_API_DEFAULT_MODEL: 'deepseek-flash' } })
  await one.initialize()
  const { result } = await one.call(1, 'doctor')
  const checks = Object.fromEntries(result.structuredContent.checks.map((check) => [check.name, check]))
  assert.equal(checks['model.answer'].status, 'pass')
  assert.equal(checks['api.default_model'].status, 'pass')
  assert.match(result.content[0].text, /^pass +model\.answer +engram-nano answered/m)
  const explained = await one.call(2, 'doctor', { explain: 'local proxy failed' })
  assert.equal(explained.result.structuredContent.checks[0].name, 'local proxy failed')
  await one.finish()
  assert.ok(!(one.raw + one.stderr).includes(key))
})
