// Anthropic's own client, two majors, against the daemon.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { import_or_skip, serve } from './lib/engramd.mjs'

const majors = ['anthropic-0', 'anthropic-1']
const packages = await Promise.all(majors.map(import_or_skip))
const request = { model: 'engram-nano', max_tokens: 50,
  messages: [{ role: 'user', content: 'What is the capital of France?' }] }

let server
before(async () => { server = await serve() })
after(() => server.stop())

majors.forEach((major, i) => {
  const client = (options = { apiKey: server.token }) =>
    new packages[i].default({ baseURL: server.url, maxRetries: 0, ...options })

  test(`${major}: a message, with either kind of key`, async () => {
    for (const options of [{ apiKey: server.token }, { apiKey: null, authToken: server.token }]) {
      const message = await client(options).messages.create(request)
      assert.equal(message.content[0].text, 'The capital of France is Paris.')
      assert.equal(message.stop_reason, 'end_turn')
      assert.ok(message.usage.input_tokens > 0 && message.usage.output_tokens === 8)
    }
  })

  test(`${major}: a stream and what it adds up to`, async () => {
    const stream = client().messages.stream({ ...request, system: [{ type: 'text', text: 'Be brief.' }] })
    let text = ''
    stream.on('text', (piece) => (text += piece))
    const message = await stream.finalMessage()
    assert.equal(message.content[0].text, text)
    assert.ok(text.length > 0)
  })

  test(`${major}: stops, limits, counting, refusals`, async () => {
    const stopped = await client().messages.create({ ...request, stop_sequences: [' Paris'] })
    assert.equal(stopped.stop_reason, 'stop_sequence')
    assert.equal(stopped.stop_sequence, ' Paris')
    const short = await client().messages.create({ ...request, max_tokens: 2 })
    assert.equal(short.stop_reason, 'max_tokens')
    const { input_tokens } = await client().messages.countTokens({ model: request.model, messages: request.messages })
    assert.equal(input_tokens, stopped.usage.input_tokens)
    await assert.rejects(client().messages.create({ ...request, model: 'no-such' }),
      (error) => error.status === 404 && error.error.error.type === 'not_found_error')
    await assert.rejects(client({ apiKey: 'wrong' }).messages.create(request), (error) => error.status === 401)
  })
})
