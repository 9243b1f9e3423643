// Remotes for the tests: servers that answer as they are told and count what they are asked, and an
// engramd in front of them.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Engramd } from './engramd.mjs'

export const question = 'What is the capital of France?'
export const key = 'sk-e2e-0123456789abcdef'
export const tls = fileURLToPath(new URL('../../data/tls/', import.meta.url))

export const children = []
after(() => children.forEach((each) => each.child.kill('SIGKILL')))

export async function client(base_url, env = {}) {
  const one = new Engramd({
    env: { ...process.env, ENGRAMD_API_BASE_URL: base_url, TAOTOKEN_API_KEY: key,
      ENGRAMD_API_DEFAULT_MODEL: 'big', ...env } })
  children.push(one)
  await one.initialize()
  let id = 0
  one.chat = async (args) => {
    const { result } = await one.call(++id, 'chat', { prompt: question, ...args })
    return { text: result.content[0].text, is_error: result.isError ?? false, ...result.structuredContent }
  }
  return one
}

// A server that gives each request of a chat to `answer`, and counts them.
export async function upstream(answer, { secure, port = 0, certificate = 'server.pem' } = {}) {
  const handler = (request, response) => {
    let body = ''
    request.on('data', (bytes) => (body += bytes))
    request.on('end', () => {
      server.requests.push({ url: request.url, headers: request.headers, body: body && JSON.parse(body) })
      answer(response, request, server.requests.length)
    })
  }
  const server = secure
    ? https.createServer({ key: readFileSync(tls + 'server.key'), cert: readFileSync(tls + certificate) }, handler)
    : http.createServer(handler)
  server.requests = []
  server.n_connections = 0
  server.on(secure ? 'secureConnection' : 'connection', () => server.n_connections++)
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  server.url = (host = '127.0.0.1') => `${secure ? 'https' : 'http'}://${host}:${server.address().port}`
  server.stop = () => {
    server.closeAllConnections()
    server.close()
  }
  after(() => server.listening && server.stop())
  return server
}

export const chunk = (text, more = {}) =>
  JSON.stringify({ model: 'big-1', choices: [{ index: 0, delta: { content: text }, ...more }] })
export const stream = (...parts) => (response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const part of parts) response.write(part)
  response.end()
}
export const events = (...data) => data.map((each) => `data: ${each}\n\n`).join('')
export const good = events(chunk('Par'), chunk('is'), chunk('', { finish_reason: 'stop' }), '[DONE]')
export const json = (status, body, headers = {}) => (response) => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}
