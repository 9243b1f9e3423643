#!/usr/bin/env node
// Starts the native engramd that npm installed for this platform, and is out of the way at once: where
// Node can, the process becomes engramd; elsewhere it passes signals on and ends as engramd ends.
// No dependencies and nothing read but one package.json: this is on the way to the first reply.
'use strict'

const platform = `${process.platform}-${process.arch}`

function fail(lines) {
  process.stderr.write(lines.map((line) => `engramd: ${line}\n`).join(''))
  process.exit(1)
}

function native_binary() {
  if (process.env.ENGRAMD_BINARY) return process.env.ENGRAMD_BINARY
  try {
    const manifest = require.resolve(`@engramd/${platform}/package.json`)
    return manifest.slice(0, -'package.json'.length) + 'bin/engramd'
  } catch {
    fail([
      `there is no engramd for ${platform} in this installation`,
      platform === 'linux-x64'
        ? 'npm left out @engramd/linux-x64 (omit=optional, or a lock file of another system): run npm i -g engramd, or remove ~/.npm/_npx and try again'
        : 'this version is for linux-x64 only; build it from source, or set ENGRAMD_BINARY to a program of your own',
    ])
  }
}

const binary = native_binary()
const args = process.argv.slice(2)

if (typeof process.execve === 'function') {
  process.removeAllListeners('warning') // execve is young and says so
  process.on('warning', () => {})
  try {
    process.execve(binary, [binary, ...args], process.env)
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'EACCES') fail([`cannot start ${binary}: ${error.code}`])
  }
}

const child = require('node:child_process').spawn(binary, args, { stdio: 'inherit' })
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
for (const signal of signals) process.on(signal, () => child.kill(signal))
child.on('error', (error) => fail([`cannot start ${binary}: ${error.message}`]))
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code)
  for (const each of signals) process.removeAllListeners(each)
  process.kill(process.pid, signal)
})
