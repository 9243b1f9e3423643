// OpenAI's own clients, two majors, against the daemon: what an existing script does after it has
// changed its base URL.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { import_or_skip, serve } from './lib/engramd.mjs'

const majors = ['openai-6', 'openai-7']
const packages = await Promise.all(majors.map(import_or_skip))
const messages = [{ role: 'user', content: 'What is the capital of France?' }]
const model = 'engram-nano'

let server
before(async () => { server = await serve() })
after(() => server.stop())

majors.forEach((major, i) => {
  const client = (path = '/v1', apiKey = server.token) =>
    new packages[i].default({ baseURL: server.url + path, apiKey, maxRetries: 0 })

  test(`${major}: an answer, under every base path`, async () => {
    for (const path of ['/v1', '', '/api', '/api/v1']) {
      const answer = await client(path).chat.completions.create({ model, messages })
      assert.equal(answer.choices[0].message.content, 'The capital of France is Paris.')
      assert.equal(answer.choices[0].finish_reason, 'stop')
      assert.equal(answer.usage.completion_tokens, 8)
    }
  })

  test(`${major}: a stream, with usage, and its helper`, async () => {
    const stream = await client().chat.completions.create(
      { model, messages, stream: true, stream_options: { include_usage: true } })
    let text = ''
    let usage
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      usage ??= chunk.usage
    }
    assert.equal(text, 'The capital of France is Paris.')
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
    const final = await client().chat.completions.stream({ model, messages }).finalChatCompletion()
    assert.equal(final.choices[0].message.content, text)
  })

  test(`${major}: choices, seeds, log-probabilities, stops`, async () => {
    const two = await client().chat.completions.create(
      { model, messages, n: 2, temperature: 1, seed: 7, logprobs: true, top_logprobs: 3 })
    assert.equal(two.choices.length, 2)
    const again = await client().chat.completions.create({ model, messages, n: 2, temperature: 1, seed: 7 })
    assert.deepEqual(again.choices.map((c) => c.message.content), two.choices.map((c) => c.message.content))
    for (const { message, logprobs } of two.choices) {
      assert.equal(logprobs.content.map((entry) => entry.token).join(''), message.content)
      assert.equal(logprobs.content[0].top_logprobs.length, 3)
    }
    const stopped = await client().chat.completions.create({ model, messages, stop: ' Paris' })
    assert.equal(stopped.choices[0].message.content, 'The capital of France is')
  })

  test(`${major}: an answer held to a schema`, async () => {
    const schema = { type: 'object', additionalProperties: false, required: ['city', 'country', 'sure'],
      properties: { city: { type: 'string', maxLength: 12 }, country: { enum: ['France', 'Spain'] },
        sure: { type: 'boolean' } } }
    const answer = await client().chat.completions.create({ model, messages, max_tokens: 200,
      response_format: { type: 'json_schema', json_schema: { name: 'city', strict: true, schema } } })
    const value = JSON.parse(answer.choices[0].message.content)
    assert.deepEqual(Object.keys(value).sort(), ['city', 'country', 'sure'])
    assert.ok(['France', 'Spain'].includes(value.country))
  })

  test(`${major}: completions, embeddings, models`, async () => {
    const completion = await client().completions.create({ model, prompt: ['The capital of', 'Once'], max_tokens: 4 })
    assert.equal(completion.choices.length, 2)
    const { data } = await client().embeddings.create({ model, input: ['Paris', 'London', 'Paris'] })
    assert.ok(data[0].embedding.length > 0)
    assert.deepEqual(data[0].embedding, data[2].embedding)
    assert.notDeepEqual(data[0].embedding, data[1].embedding)
    const listed = await client().models.list()
    assert.equal(listed.data[0].id, model)
    assert.equal((await client().models.retrieve(model)).id, model)
  })

  test(`${major}: refusals by their kind`, async () => {
    const refused = (status, code) => (error) => error.status === status && (!code || error.code === code)
    const { chat } = client()
    await assert.rejects(chat.completions.create({ model: 'no-such', messages }), refused(404, 'model_not_found'))
    await assert.rejects(chat.completions.create({ model, messages: [] }), refused(400))
    await assert.rejects(chat.completions.create({ model, messages, tools: [{ type: 'function',
      function: { name: 'f', parameters: {} } }] }), (error) => error.status === 400 && error.param === 'tools')
    await assert.rejects(chat.completions.create({ model, messages: [{ role: 'user', content: 'x '.repeat(9000) }] }),
      refused(400, 'context_length_exceeded'))
    await assert.rejects(client('/v1', 'wrong').models.list(), refused(401))
  })
})

test('the value of the variable that api_key_env names is a token, and an alias is a model', async () => {
  const { mkdtempSync } = await import('node:fs')
  const { tmpdir } = await import('node:os')
  const { join } = await import('node:path')
  const env = { ...process.env, TAOTOKEN_API_KEY: 'a-key-of-mine',
    XDG_STATE_HOME: mkdtempSync(join(tmpdir(), 'engramd-e2e-state-')) }
  const second = await serve(['--server-aliases', 'deepseek-chat=engram-nano'], env)
  try {
    const client = new packages[0].default({ baseURL: `${second.url}/v1`, apiKey: 'a-key-of-mine' })
    const answer = await client.chat.completions.create({ model: 'deepseek-chat', messages })
    assert.match(answer.choices[0].message.content, /Paris/)
  } finally {
    await second.stop()
  }
})
