// The HTTP APIs in front of a remote, with the official clients: what only a remote can do (tools,
// thoughts, images) is passed on, and the local model steps in when it cannot.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { import_or_skip, serve, within } from './lib/engramd.mjs'
import { chunk, events, good, json, key, question, stream, upstream } from './lib/remote.mjs'

const [{ default: OpenAI }, { default: Anthropic }] =
  await Promise.all(['openai-7', 'anthropic-1'].map(import_or_skip))
const messages = [{ role: 'user', content: question }]
const weather = { name: 'weather', description: 'Weather of a city', schema: { type: 'object', properties: { city: { type: 'string' } } } }

let answer
const remote = await upstream((response, request, n) => answer(response, request, n))
const server = await serve([], { ...process.env, XDG_STATE_HOME: mkdtempSync(join(tmpdir(), 'engramd-api-')),
  TAOTOKEN_API_KEY: key, ENGRAMD_API_BASE_URL: remote.url() + '/v1', ENGRAMD_API_DEFAULT_MODEL: 'big',
  ENGRAMD_API_FALLBACK_MODEL: 'cheap', ENGRAMD_API_MAX_RETRIES: '0' })
after(() => server.stop())

function play(next) {
  answer = next
  remote.requests.length = 0
}
const openai = () => new OpenAI({ baseURL: server.url + '/v1', apiKey: server.token, maxRetries: 0 })
const anthropic = () => new Anthropic({ baseURL: server.url, apiKey: server.token, maxRetries: 0 })
const usage = '{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":5}}'
const piece = (delta, more = {}) => JSON.stringify({ model: 'big-1', choices: [{ index: 0, delta, ...more }] })
const calls = events(
  piece({ role: 'assistant', content: null, reasoning_content: 'I need ' }), piece({ reasoning_content: 'the weather.' }),
  piece({ tool_calls: [{ index: 0, id: 'call_a', type: 'function', function: { name: 'weather', arguments: '' } }] }),
  piece({ tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] }),
  piece({ tool_calls: [{ index: 0, function: { arguments: '"Paris"}' } }] }),
  piece({ tool_calls: [{ index: 1, id: 'call_b', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } }] }),
  piece({}, { finish_reason: 'tool_calls' }), usage, '[DONE]')

test('openai: a model of the remote, whole and as a stream', async () => {
  play(stream(events(chunk('Par'), chunk('is'), chunk('', { finish_reason: 'stop' }), usage, '[DONE]')))
  const whole = await openai().chat.completions.create({ model: 'big', messages, max_tokens: 77, reasoning_effort: 'low' })
  assert.deepEqual([whole.model, whole.choices[0].message.content, whole.choices[0].finish_reason], ['big-1', 'Paris', 'stop'])
  assert.deepEqual([whole.usage.prompt_tokens, whole.usage.total_tokens], [30, 35])
  assert.deepEqual(whole.engramd, { served_by: 'remote', model: 'big-1', attempts: 1 })
  const { body, headers } = remote.requests[0]
  assert.equal(headers.authorization, `Bearer ${key}`)
  assert.deepEqual(body, { model: 'big', messages, max_tokens: 77, reasoning_effort: 'low', stream: true,
    stream_options: { include_usage: true } })
  const final = await openai().chat.completions.stream({ model: 'big', messages, stream_options: { include_usage: true } }).finalChatCompletion()
  assert.equal(final.choices[0].message.content, 'Paris')
  assert.equal(final.usage.total_tokens, 35)
})

test('openai: usage that nobody reported is null', async () => {
  play(stream(good))
  const whole = await openai().chat.completions.create({ model: 'big', messages })
  assert.equal(whole.usage, null)
})

test('openai: tools and thoughts, there and back', async () => {
  play(stream(calls))
  const tools = [{ type: 'function', function: { name: weather.name, description: weather.description, parameters: weather.schema } }]
  const whole = await openai().chat.completions.create({ model: 'big', messages, tools, tool_choice: 'auto' })
  const { message, finish_reason } = whole.choices[0]
  assert.equal(finish_reason, 'tool_calls')
  assert.equal(message.reasoning_content, 'I need the weather.')
  assert.deepEqual(message.tool_calls.map((call) => [call.id, call.type, call.function.name, JSON.parse(call.function.arguments).city]),
    [['call_a', 'function', 'weather', 'Paris'], ['call_b', 'function', 'weather', 'Rome']])
  assert.deepEqual(remote.requests[0].body.tools, tools)
  const streamed = await openai().chat.completions.stream({ model: 'big', messages, tools }).finalChatCompletion()
  assert.deepEqual(streamed.choices[0].message.tool_calls.map((call) => [call.id, call.function.arguments]),
    [['call_a', '{"city":"Paris"}'], ['call_b', '{"city":"Rome"}']])
  play(stream(good))
  const results = message.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'sunny' }))
  await openai().chat.completions.create({ model: 'big', messages: [...messages, message, ...results], tools })
  assert.deepEqual(remote.requests[0].body.messages, JSON.parse(JSON.stringify([...messages, message, ...results])))
})

test('openai: the client asks again only where that is of use and costs nothing', async () => {
  const retrying = new OpenAI({ baseURL: server.url + '/v1', apiKey: server.token })
  const cut = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(events(chunk('Pa')), () => response.destroy())
  }
  // Once each model: the one that is named and the fallback, which starts nothing over.
  for (const [name, play_it, status, times] of [['401', json(401, { error: { message: 'no' } }), 502, 2],
    ['400', json(400, { error: { message: 'odd' } }), 400, 2], ['cut', cut, 502, 1]]) {
    play(play_it)
    await assert.rejects(retrying.chat.completions.create({ model: `ill-${name}`, messages, route: 'remote' }),
      (error) => error.status === status)
    assert.equal(remote.requests.length, times, name)
  }
})

test('openai: a schema keeps the order of its keys', async () => {
  play(stream(good))
  const schema = { type: 'object', properties: { reasoning: { type: 'string' }, answer: { type: 'string' } } }
  const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
  await openai().chat.completions.create({ model: 'big', messages, response_format })
  assert.equal(JSON.stringify(remote.requests[0].body.response_format), JSON.stringify(response_format))
})

const without_arguments = events(
  piece({ tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name: 'now', arguments: '' } }] }),
  piece({ tool_calls: [{ index: 1, id: 'b', type: 'function', function: { name: 'weather', arguments: '{"city":' } }] }),
  piece({ tool_calls: [{ index: 1, function: { arguments: '"Rome"}' } }] }), piece({}, { finish_reason: 'tool_calls' }))
test('a call without arguments before one with them', async () => {
  play(stream(without_arguments))
  const openai_final = await openai().chat.completions.stream({ model: 'big', messages }).finalChatCompletion()
  assert.deepEqual(openai_final.choices[0].message.tool_calls.map((call) => [call.id, call.function.arguments]),
    [['a', '{}'], ['b', '{"city":"Rome"}']])
  const blocks = []
  let open = null
  for await (const event of anthropic().messages.stream({ model: 'big', max_tokens: 9, messages })) {
    if (event.type === 'content_block_start') {
      assert.equal(open, null, 'blocks do not overlap')
      open = event.index
      assert.equal(open, blocks.length)
      blocks.push([event.content_block.id, ''])
    } else if (event.type === 'content_block_delta') {
      assert.equal(event.index, open)
      blocks[open][1] += event.delta.partial_json
    } else if (event.type === 'content_block_stop') {
      assert.equal(event.index, open)
      open = null
    }
  }
  assert.deepEqual(blocks, [['a', '{}'], ['b', '{"city":"Rome"}']])
})

test('openai: what the local model cannot do goes to the remote, and says why', async () => {
  play(stream(calls))
  const tools = [{ type: 'function', function: { name: 'weather', parameters: weather.schema } }]
  const whole = await openai().chat.completions.create({ model: 'engram-nano', messages, tools })
  assert.equal(whole.choices[0].finish_reason, 'tool_calls')
  assert.equal(remote.requests[0].body.model, 'big')
  assert.match(whole.engramd.fallback_reason, /^local: tools: this model's chat template has no tools/)
  await assert.rejects(openai().chat.completions.create({ model: 'engram-nano', messages, tools, route: 'local' }),
    (error) => error.status === 400 && error.param === 'tools')
  const image = [{ role: 'user', content: [{ type: 'text', text: 'What is this?' },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }]
  play(stream(good))
  assert.equal((await openai().chat.completions.create({ model: 'big', messages: image })).choices[0].message.content, 'Paris')
  assert.deepEqual(remote.requests[0].body.messages, image)
})

test('openai: the local model answers for itself, and for a remote that does not', async () => {
  play(json(401, { error: { message: 'no key' } }))
  const own = await openai().chat.completions.create({ model: 'engram-nano', messages })
  assert.equal(own.choices[0].message.content, 'The capital of France is Paris.')
  assert.equal(own.engramd.served_by, 'local')
  assert.equal(remote.requests.length, 0)
  const instead = await openai().chat.completions.create({ model: 'big', messages })
  assert.deepEqual([instead.model, instead.engramd.served_by], ['engram-nano', 'local'])
  assert.match(instead.choices[0].message.content, /Paris/)
  assert.match(instead.engramd.fallback_reason, /big: HTTP 401: no key; cheap: HTTP 401: no key/)
  let text = ''
  let provenance
  for await (const { choices, engramd } of await openai().chat.completions.create({ model: 'big', messages, stream: true })) {
    text += choices[0].delta.content ?? ''
    provenance ??= engramd
  }
  assert.match(text, /Paris/)
  assert.equal(provenance.served_by, 'local')
  await assert.rejects(openai().chat.completions.create({ model: 'big', messages, route: 'remote' }),
    (error) => error.status === 502 && /no key/.test(error.message))
})

test('openai: refusals', async () => {
  play(stream(good))
  for (const [more, param] of [[{ n: 2 }, 'n'], [{ logprobs: true }, 'logprobs'], [{ route: 'elsewhere' }, 'route']]) {
    await assert.rejects(openai().chat.completions.create({ model: 'big', messages, ...more }),
      (error) => error.status === 400 && error.param === param)
  }
  await assert.rejects(openai().completions.create({ model: 'big', prompt: 'Once' }), (error) => error.status === 404)
  play(json(400, { error: { message: 'messages: too odd' } }))
  await assert.rejects(openai().chat.completions.create({ model: 'big', messages, route: 'remote' }),
    (error) => /too odd/.test(error.message))
})

test('openai: the list has the remote models that are configured', async () => {
  const list = []
  for await (const model of openai().models.list()) list.push([model.id, model.owned_by])
  assert.deepEqual(list.slice(-2), [['big', 'remote'], ['cheap', 'remote']])
  assert.equal((await openai().models.retrieve('big')).owned_by, 'remote')
})

test('a client that goes ends the call at the remote', async () => {
  let arrived
  const closed = new Promise((resolve) => { arrived = (request) => resolve(once(request.socket, 'close')) })
  play((response, request) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(events(chunk('Par')))
    arrived(request)
  })
  const leaving = await openai().chat.completions.create({ model: 'big', messages, stream: true })
  for await (const part of leaving) if (part.choices[0].delta.content) break
  await within(closed, 'closed connection', 5000)
})

test('anthropic: text and usage of the remote', async () => {
  play(stream(events(chunk('Par'), chunk('is'), chunk('', { finish_reason: 'length' }), usage, '[DONE]')))
  const request = { model: 'big', max_tokens: 99, system: 'Be brief.', messages, stop_sequences: ['END'], temperature: 0.5 }
  const whole = await anthropic().messages.create(request)
  assert.deepEqual([whole.model, whole.content, whole.stop_reason], ['big-1', [{ type: 'text', text: 'Paris' }], 'max_tokens'])
  assert.deepEqual([whole.usage.input_tokens, whole.usage.output_tokens], [30, 5])
  assert.deepEqual(remote.requests[0].body, { model: 'big', max_tokens: 99, temperature: 0.5, stop: ['END'],
    messages: [{ role: 'system', content: 'Be brief.' }, ...messages], stream: true, stream_options: { include_usage: true } })
  const final = await anthropic().messages.stream(request).finalMessage()
  assert.deepEqual([final.content, final.stop_reason], [whole.content, 'max_tokens'])
  assert.equal(final.usage.output_tokens, 5)
})

test('anthropic: tools and thoughts, there and back', async () => {
  play(stream(calls))
  const tools = [{ name: weather.name, description: weather.description, input_schema: weather.schema }]
  const request = { model: 'big', max_tokens: 99, messages, tools, tool_choice: { type: 'any' }, thinking: { type: 'enabled', budget_tokens: 1024 } }
  const whole = await anthropic().messages.create(request)
  const streamed = await anthropic().messages.stream(request).finalMessage()
  for (const message of [whole, streamed]) {
    assert.equal(message.stop_reason, 'tool_use')
    assert.deepEqual(message.content.map((block) => block.type), ['thinking', 'tool_use', 'tool_use'])
    assert.equal(message.content[0].thinking, 'I need the weather.')
    assert.deepEqual(message.content.slice(1).map(({ id, name, input }) => [id, name, input]),
      [['call_a', 'weather', { city: 'Paris' }], ['call_b', 'weather', { city: 'Rome' }]])
  }
  const { body } = remote.requests[0]
  assert.deepEqual(body.tools, [{ type: 'function', function: { name: 'weather', description: weather.description, parameters: weather.schema } }])
  assert.equal(body.tool_choice, 'required')
  assert.deepEqual(body.thinking, { type: 'enabled' })
  play(stream(good))
  await anthropic().messages.create({ ...request, tool_choice: { type: 'auto' }, messages: [...messages,
    { role: 'assistant', content: whole.content },
    { role: 'user', content: [
      { type: 'tool_result', tool_use_id: 'call_a', content: 'sunny' },
      { type: 'tool_result', tool_use_id: 'call_b', content: [{ type: 'text', text: 'no station' }], is_error: true },
      { type: 'text', text: 'Go on.' }] }] })
  const call = (id, city) => ({ id, type: 'function', function: { name: 'weather', arguments: JSON.stringify({ city }) } })
  assert.deepEqual(remote.requests[0].body.messages, [...messages,
    { role: 'assistant', content: '', reasoning_content: 'I need the weather.', tool_calls: [call('call_a', 'Paris'), call('call_b', 'Rome')] },
    { role: 'tool', tool_call_id: 'call_a', content: 'sunny' },
    { role: 'tool', tool_call_id: 'call_b', content: 'Error: no station' },
    { role: 'user', content: 'Go on.' }])
})

test('anthropic: an image in a result of a tool is passed on, a document is refused', async () => {
  play(stream(good))
  const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' }
  const request = (content) => ({ model: 'big', max_tokens: 9, messages: [{ role: 'user', content }] })
  await anthropic().messages.create(request([{ type: 'tool_result', tool_use_id: 'a', content: [{ type: 'image', source }] }]))
  assert.deepEqual(remote.requests[0].body.messages, [{ role: 'tool', tool_call_id: 'a', content: '' },
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }])
  for (const block of [{ type: 'document', source }, { type: 'image' }]) {
    await assert.rejects(anthropic().messages.create(request([block, { type: 'text', text: 'Summarise.' }])),
      (error) => error.status === 400)
  }
  assert.equal(remote.requests.length, 1)
})

test('anthropic: the local model steps in', async () => {
  play(json(401, { error: { message: 'no key' } }))
  const whole = await anthropic().messages.create({ model: 'big', max_tokens: 20, messages })
  assert.match(whole.content[0].text, /Paris/)
  assert.match(whole.engramd.fallback_reason, /big: HTTP 401: no key/)
})

test('nothing that a remote sends ends the daemon', async () => {
  const deep = '['.repeat(300000) + ']'.repeat(300000)
  for (const hostile of [json(400, `{"detail":${deep}}`), json(200, `{"choices":${deep}}`),
    stream(events(piece({ tool_calls: [{ id: 'a', function: { name: 'f', arguments: deep } }] }), piece({}, { finish_reason: 'tool_calls' })))]) {
    play(hostile)
    await assert.rejects(openai().chat.completions.create({ model: 'deep', messages, route: 'remote' }), (error) => error.status >= 400)
    await assert.rejects(anthropic().messages.create({ model: 'deep', max_tokens: 9, messages, route: 'remote' }), (error) => error.status >= 400)
  }
  play(stream(good))
  assert.equal((await openai().chat.completions.create({ model: 'big', messages })).choices[0].message.content, 'Paris')
})
