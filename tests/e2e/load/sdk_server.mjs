// The official TypeScript SDK's server with one tool, for load.mjs:
//   node sdk_server.mjs stdio | http | http-json | ws
// For TCP it prints its port. One session each: the same work as the other side. The SDK has no server
// for WebSocket; the transport below is the least that gives it one.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { WebSocketServer } from 'ws'

const how = process.argv[2]
const listen = (http) => http.listen(0, '127.0.0.1', () => console.log(http.address().port))

async function connected(transport) {
  const server = new McpServer({ name: 'sdk', version: '1' })
  server.registerTool('test_simple_text', { description: 'Says a sentence' }, async () =>
    ({ content: [{ type: 'text', text: 'This is a simple text response for testing.' }] }))
  await server.connect(transport)
  return transport
}

class OverWebSocket {
  constructor(socket) {
    this.socket = socket
    socket.on('message', (text) => this.onmessage(JSON.parse(text)))
    socket.on('close', () => this.onclose?.())
  }
  async start() {}
  async send(message) { this.socket.send(JSON.stringify(message)) }
  async close() { this.socket.close() }
}

if (how === 'stdio') {
  await connected(new StdioServerTransport())
} else if (how === 'ws') {
  const http = createServer()
  const sockets = new WebSocketServer({ server: http, handleProtocols: () => 'mcp' })
  sockets.on('connection', (socket) => connected(new OverWebSocket(socket)))
  listen(http)
} else {
  const sessions = new Map()
  listen(createServer(async (request, response) => {
    const session = sessions.get(request.headers['mcp-session-id']) ??
      await connected(new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID,
        enableJsonResponse: how === 'http-json',
        onsessioninitialized: (id) => sessions.set(id, session) }))
    await session.handleRequest(request, response)
  }))
}
