// Tables from outside: edits that outlive kill -9 and are undone to the bit, one writer at a time,
// and a row file that answers as the model's own table does, from memory and from the file.
import assert from 'node:assert/strict'
import { cpSync, ftruncateSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Engramd, run, within } from './lib/engramd.mjs'

const model = fileURLToPath(new URL('../../install/models/engram-nano', import.meta.url))
const question = { prompt: 'What is the capital of France?', top_logprobs: 5 }
const zero = { edits: [{ text: ' capital of', operation: 'zero' }, { text: ' of France', operation: 'zero' }] }

function folder(t) {
  const path = mkdtempSync(join(tmpdir(), 'engramd-tables-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function server(t, ...args) {
  const started = new Engramd({ args: ['--stdio', '--standalone', ...args] })
  t.after(() => started.child.kill('SIGKILL'))
  await started.initialize()
  return started
}

let next_id = 0
async function call(server, name, args) {
  const { result } = await server.call(++next_id, name, args)
  assert.ok(!result.isError, JSON.stringify(result.content))
  return result.structuredContent
}
async function refusal(server, name, args) {
  const { result } = await server.call(++next_id, name, args)
  assert.ok(result.isError)
  return result.content[0].text
}
// Everything about an answer that depends on the tables alone, to the last bit of a log-probability.
const answer = async (server) => {
  const { text, logprobs } = await call(server, 'chat', question)
  return { text, logprobs }
}

test('an edit acknowledged before kill -9 is there afterwards, and undoing it restores every bit', async (t) => {
  const edits = join(folder(t), 'edits')
  const first = await server(t, '--edits', edits)
  const before = await answer(first)
  assert.match(before.text, /Paris/)
  assert.ok(before.logprobs.length > 0)
  const stored = await call(first, 'table_update', { ...zero, author: 'me', reason: 'forget it' })
  assert.equal(stored.transaction.number, 1)
  const edited = await answer(first)
  assert.notDeepEqual(edited, before)
  first.child.kill('SIGKILL')
  await within(first.exit, 'end of the killed server')

  const second = await server(t, '--edits', edits)
  assert.deepEqual(await answer(second), edited)
  const seen = await call(second, 'engram_lookup', { text: 'the capital of France', detail: 'rows' })
  const rows = seen.tokens.flatMap((token) => token.layers.flatMap((layer) => layer.rows))
  assert.equal(rows.filter((row) => row.edited_by === 1 && row.edit_scope === 'ngram').length, 16)
  const gates = await call(second, 'gate_inspect', { text: 'the capital of France', ablation: false })
  assert.equal(gates.tokens.filter((token) => token.rows_edited.includes(8)).length, 2)
  await call(second, 'table_rollback', { transaction: 1 })
  assert.deepEqual(await answer(second), before)
  assert.equal((await second.finish()).code, 0)
})

test('compare-and-swap, dry runs and refusals store nothing', async (t) => {
  const edits = join(folder(t), 'edits')
  const s = await server(t, '--edits', edits)
  const { image } = await call(s, 'table_get', { text: ' capital of' })
  const edit = { text: ' capital of', operation: 'scale', factor: 2, expected_image: image }
  const dry = await call(s, 'table_update', { edits: [edit], dry_run: true })
  assert.equal(dry.stored, false)
  await call(s, 'table_update', { edits: [edit] })
  assert.match(await refusal(s, 'table_update', { edits: [edit] }), /does not hold the expected image/)
  const twice = [{ text: ' capital of', operation: 'zero' }, { text: ' capital of', operation: 'zero' }]
  assert.match(await refusal(s, 'table_update', { edits: twice }), /occurs twice/)
  assert.match(await refusal(s, 'table_update', { edits: [{ text: 'x', operation: 'zero' }] }), /2 to 3 tokens/)
  const huge = { text: ' capital of', operation: 'scale', factor: 1e39 }
  assert.match(await refusal(s, 'table_update', { edits: [huge] }), /factor|finite/)
  assert.match(await refusal(s, 'table_rollback', { transaction: 7 }), /7/)
  assert.match(await refusal(s, 'table_rollback', { to: 'nowhere' }), /no snapshot/)
  assert.equal((await call(s, 'table_history', {})).transactions.length, 1)
})

test('one process edits at a time, and the other says so', async (t) => {
  const edits = join(folder(t), 'edits')
  const first = await server(t, '--edits', edits)
  const before = await answer(first)
  await call(first, 'table_update', zero)
  const second = await server(t, '--edits', edits)
  assert.deepEqual(await answer(second), before, 'the base is served')
  assert.match(await refusal(second, 'table_update', zero), /in use by another process/)
  assert.match(second.stderr, /served without their edits/)
  const { code, stderr } = await run(['table', 'get', ' capital of', '--edits', edits], { env: process.env })
  assert.equal(code, 1)
  assert.match(stderr, /in use by another process/)
})

test('the same from a shell', async (t) => {
  const edits = join(folder(t), 'edits')
  const engramd = async (...args) => {
    const { code, stdout, stderr } = await run([...args, '--edits', edits], { env: process.env })
    assert.equal(code, 0, stderr)
    return stdout
  }
  const put = JSON.parse(await engramd('table', 'put', ' capital of', '--operation', 'scale',
    '--factor', '0.5', '--author', 'me', '--reason', 'why not', '--json'))
  assert.equal(put.transaction.author, 'me')
  assert.match(await engramd('table', 'history'), /transaction 1, .* by me: why not/)
  assert.match(await engramd('table', 'history', '1'), /norm 0\.8428 -> 0\.4214/)
  assert.match(await engramd('table', 'snapshot', 'half'), /half: after transaction 1/)
  assert.match(await engramd('table', 'rollback', '1'), /rollback of 1/)
  assert.match(await engramd('table', 'diff', '0', 'half'), /^8 rows differ/)
  assert.match(await engramd('table', 'diff', '0'), /^0 rows differ/)
  assert.match(await engramd('table', 'restore', 'half'), /restore of 1/)
  assert.match(await engramd('table', 'get', ' capital of'), /written by transaction 1/)
  const batch = join(tmpdir(), `engramd-batch-${process.pid}.json`)
  writeFileSync(batch, JSON.stringify([{ layer: 1, row: 5, operation: 'zero' }]))
  t.after(() => rmSync(batch))
  assert.match(await engramd('table', 'put', '--batch', batch), /layer 1 2-gram head 0 row 5 \(row\)/)
})

test('a row file answers as the model does: mapped, in memory, and read from the file', async (t) => {
  const where = folder(t)
  const file = join(where, 'table.engram')
  const imported = await run(['table', 'import', model, file], { env: process.env })
  assert.equal(imported.code, 0, imported.stderr)
  const opened = await run(['table', 'open', file], { env: process.env })
  assert.match(opened.stdout, /opened in [\d.]+ ms: mapped, rows by memory/)
  const in_place = await run(['table', 'open', model], { env: process.env })
  assert.match(in_place.stdout, /opened in [\d.]+ ms: mapped/)
  assert.notEqual((await run(['table', 'open', join(where, 'none')], { env: process.env })).code, 0)
  const own = await server(t, '--edits', join(where, 'own.edits'))
  const expected = await answer(own)
  const config = join(where, 'config.toml')
  for (const [level, toml] of [
    ['resident', '[engram.table]\nmmap = true\n'],
    ['resident', '[engram.table]\nmmap = false\n'],
    ['file', '[engram]\nhost_memory_limit_gb = 0.003\n'],
    ['file', '[engram]\ncache_levels = 1\nasync_prefetch = false\n'],
  ]) {
    writeFileSync(config, toml)
    const served = await server(t, '--config', config, '--table', file, '--edits', join(where, `${Math.random()}`))
    assert.deepEqual(await answer(served), expected, toml)
    const { row_cache } = await call(served, 'metrics', {})
    const hits = row_cache.levels.find((entry) => entry.name === level).hits
    assert.ok(hits > 0, `${toml}: ${JSON.stringify(row_cache)}`)
    assert.equal(row_cache.bytes_read > 0, level === 'file')
    // Edited while it is read from the file, and again as it was.
    await call(served, 'table_update', zero)
    assert.notDeepEqual(await answer(served), expected)
    await call(served, 'table_rollback', { to: '0' })
    assert.deepEqual(await answer(served), expected)
    served.child.kill('SIGKILL')
    await within(served.exit, 'end of the killed server')
  }
})

test('a table that does not fit, is not the model\'s, is cut short or is missing is named', async (t) => {
  const where = folder(t)
  const file = join(where, 'table.engram')
  await run(['table', 'import', model, file], { env: process.env })
  const chat = (toml, ...args) => {
    writeFileSync(join(where, 'config.toml'), toml)
    return run(['chat', 'What is the capital of France?', '--config', join(where, 'config.toml'), ...args],
      { env: process.env })
  }
  const own = await chat('[engram]\nhost_memory_limit_gb = 0.001\n')
  assert.equal(own.code, 1)
  assert.match(own.stderr, /own table takes 0\.0\d\d GB, engram\.host_memory_limit_gb is 0\.001 GB/)
  const both = await chat('[engram]\nhost_memory_limit_gb = 0.004\ncache_levels = 2\n', '--table', file)
  assert.equal(both.code, 1)
  assert.match(both.stderr, /0\.0\d\d GB .*0\.004 GB/)
  const foreign = join(where, 'foreign.engram')
  await run(['table', 'create', foreign, '--config', '/dev/null', '--rows', 'f16'], { env: process.env })
  const missing = await chat('', '--table', join(where, 'nowhere.engram'))
  assert.equal(missing.code, 0, missing.stderr)
  assert.match(missing.stderr, /nowhere\.engram is not there: the model's own table is used/)
  ftruncateSync(openSync(file, 'r+'), 1 << 20)
  const cut = await chat('', '--table', file)
  assert.notEqual(cut.code, 0)
  assert.match(cut.stderr, /table\.engram/)
})

test('a fold takes over while an answer runs, and everything after it finds the new tables', async (t) => {
  const where = folder(t)
  const edits = join(where, 'edits')
  const s = await server(t, '--edits', edits)
  const rows = [{ text: ' capital of', operation: 'zero', scope: 'row' }, { text: ' of France', operation: 'scale', factor: 0.25 }]
  await call(s, 'table_update', { edits: rows })
  const edited = await answer(s)
  const long = { prompt: 'Count.', max_tokens: 200, logit_bias: [{ token: 1, bias: -100 }] }
  const expected = (await call(s, 'chat', long)).text
  const across = call(s, 'chat', long)
  const folded = await call(s, 'table_fold', { file: 'folded.engram' })
  assert.deepEqual([folded.generation, folded.rows, folded.ngrams_carried], [2, 8, 8])
  assert.equal(folded.file, join(where, 'folded.engram'))
  assert.equal((await across).text, expected)
  assert.deepEqual(await answer(s), edited)
  assert.match(await refusal(s, 'table_fold', { file: 'folded.engram' }), /exists already/)
  await call(s, 'table_update', zero)
  const later = await answer(s)
  const history = await call(s, 'table_history', {})
  assert.equal(history.edits_file, join(where, 'folded.engram.edits'))
  assert.deepEqual(history.transactions.map((entry) => entry.author), ['mcp client', 'engramd fold'])
  assert.equal((await s.finish()).code, 0)

  const again = await server(t, '--edits', edits)
  assert.deepEqual(await answer(again), later)
  assert.match(again.stderr, /the tables moved on to .*folded\.engram \(table fold\)/)
  assert.equal((await again.finish()).code, 0)
  const engramd = (...args) => run([...args, '--edits', edits], { env: process.env })
  assert.match((await engramd('table', 'info')).stdout, /moved on \(table fold\): .*folded\.engram/)
  const second = await engramd('table', 'fold', join(where, 'second.engram'), '--switch', '--json')
  assert.equal(second.code, 0, second.stderr)
  assert.equal(JSON.parse((await engramd('table', 'info', '--json')).stdout).moved_on_to.length, 2)
  rmSync(join(where, 'second.engram.edits'))
  const broken = await engramd('chat', 'What is the capital of France?')
  assert.equal(broken.code, 1)
  assert.match(broken.stderr, /second\.engram\.edits is missing: put that file back/)
})

test('exports: a checkpoint for any engine, an overlay file, and the next generation', async (t) => {
  const where = folder(t)
  const edits = join(where, 'edits')
  const engramd = async (...args) => {
    const { code, stdout, stderr } = await run(args, { env: process.env })
    assert.equal(code, 0, stderr)
    return stdout
  }
  const ask = async (...args) => {
    const s = await server(t, ...args)
    const said = await answer(s)
    s.child.kill('SIGKILL')
    await within(s.exit, 'end of the killed server')
    return said
  }
  const before = await ask('--edits', join(where, 'none'))
  await engramd('table', 'put', ' capital of', '--operation', 'zero', '--scope', 'row', '--edits', edits)
  await engramd('table', 'put', ' of France', '--operation', 'scale', '--factor', '0.25', '--edits', edits)
  const edited = await ask('--edits', edits)
  assert.notDeepEqual(edited, before)

  // The overlay file carries everything to a place of its own.
  const overlay = join(where, 'overlay.safetensors')
  const small = JSON.parse(await engramd('table', 'export', '--overlay-file', overlay, '--edits', edits, '--json'))
  assert.deepEqual([small.rows, small.ngrams, small.ngrams_carried], [8, 8, 8])
  await engramd('table', 'put', '--overlay', overlay, '--edits', join(where, 'second'))
  assert.deepEqual(await ask('--edits', join(where, 'second')), edited)

  // The next generation holds the rows; exact N-grams stand beside it.
  const folded = join(where, 'folded.engram')
  await engramd('table', 'fold', folded, '--edits', edits)
  assert.deepEqual(await ask('--table', folded), edited)
  assert.match(await engramd('table', 'info', folded), /generation 2/)

  // A patched checkpoint: rows as any engine reads them, exact N-grams only in bucket form.
  const patched = join(where, 'patched')
  cpSync(model, patched, { recursive: true, filter: (name) => !name.endsWith('model.safetensors') })
  const plain = JSON.parse(await engramd('table', 'export', patched, '--edits', edits, '--json'))
  assert.deepEqual([plain.rows, plain.ngrams, plain.ngrams_carried], [8, 8, 0])
  const rows_only = join(where, 'rows-only')
  await engramd('table', 'put', ' capital of', '--operation', 'zero', '--scope', 'row', '--edits', rows_only)
  assert.deepEqual(await ask('--model', patched, '--edits', join(where, 'none')), await ask('--edits', rows_only))
  rmSync(join(patched, 'model.safetensors'))
  const bucket = JSON.parse(await engramd('table', 'export', patched, '--bucket', '--edits', edits, '--json'))
  assert.deepEqual([bucket.rows, bucket.ngrams_carried], [16, 8])
  assert.notDeepEqual(await ask('--model', patched, '--edits', join(where, 'none')), before)
  const again = await run(['table', 'export', patched, '--edits', edits], { env: process.env })
  assert.match(again.stderr, /exists already/)

  // An overlay of other tables is refused.
  writeFileSync(overlay, readFileSync(overlay, 'latin1').replace(/"layout_sha256":"./, '"layout_sha256":"z'), 'latin1')
  const foreign = await run(['table', 'put', '--overlay', overlay, '--edits', edits], { env: process.env })
  assert.match(foreign.stderr, /does not fit these tables: expected layout_sha256/)
})
