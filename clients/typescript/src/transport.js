// How requests reach the daemon: over HTTP on the store's socket or, where that cannot be
// reached, through .snapshots/call in the workspace.
import { randomBytes } from 'node:crypto'
import { promises as fs, constants } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { overlaid } from './locate.js'
import { AmberfsError, errors, FailedError, streams } from './generated.js'

/**
 * send returns what the operation does: an object, a string, bytes, or an iterable of events.
 * inside is the transport of a fork.
 * @typedef {{send: (op: string, args: object, signal?: AbortSignal) => Promise<any>, inside: (fork: string) => Transport}} Transport
 */

/** @param {import('./locate.js').Place} place @returns {Promise<Transport>} */
export async function connect(place) {
  return place.store && await answers(place.store) ? new Socket(place.store, place.workspace) : new Call(place.root)
}

/** @param {{error: string, kind?: string}} answer */
const failure = answer => new (errors[answer.kind ?? ''] ?? FailedError)(answer)

/**
 * Calls fn with a short name of the socket: an address has 107 bytes at most.
 * @template T @param {string} store @param {(name: string) => Promise<T>} fn @returns {Promise<T>}
 */
async function withSocket(store, fn) {
  const dir = await fs.open(store, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    return await fn(`/proc/self/fd/${dir.fd}/socket`)
  } finally {
    await dir.close()
  }
}

/** @param {string} store */
async function answers(store) {
  try {
    (await dial(store)).destroy()
    return true
  } catch {
    return false
  }
}

/** @param {string} store @returns {Promise<net.Socket>} */
const dial = store => withSocket(store, name => new Promise((resolve, reject) => {
  const conn = net.connect(name, () => resolve(conn))
  conn.on('error', reject)
}))

class Socket {
  /** @param {string} store @param {string} workspace */
  constructor(store, workspace) {
    this.store = store
    this.workspace = workspace
    this.query = workspace ? '?workspace=' + encodeURIComponent(workspace) : ''
  }

  /** @param {string} fork @returns {Transport} */
  inside(fork) {
    return new Socket(this.store, path.join(this.workspace, fork))
  }

  /** @param {string} op @param {object} args @param {AbortSignal} [signal] @returns {Promise<any>} */
  async send(op, args, signal) {
    const response = await this.#request(op, args, signal)
    if (response.statusCode !== 200) throw failure(JSON.parse((await this.#read(response)).toString()))
    if (streams[op] === 'events') return this.#events(response, signal)
    const body = await this.#read(response)
    if (!streams[op]) return JSON.parse(body.toString())
    const late = response.trailers['amberfs-error']
    if (late) throw failure(JSON.parse(Buffer.from(late, 'latin1').toString()))
    return streams[op] === 'text' ? body.toString() : body
  }

  /** @param {string} op @param {object} args @param {AbortSignal} [signal] @returns {Promise<http.IncomingMessage>} */
  async #request(op, args, signal) {
    const conn = await dial(this.store).catch(err => { throw this.#gone(err) })
    return new Promise((resolve, reject) => {
      const request = http.request({
        method: 'POST', path: `/v1/${op}${this.query}`, createConnection: () => conn, signal,
        headers: { host: 'amberfs', 'amberfs-command': encodeURIComponent(path.basename(process.argv[1] ?? 'node')) },
      }, resolve)
      request.on('error', err => reject(signal?.aborted ? signal.reason : this.#gone(err)))
      request.end(JSON.stringify(args))
    })
  }

  /** @param {http.IncomingMessage} response */
  async #read(response) {
    const parts = []
    try {
      for await (const part of response) parts.push(part)
    } catch (err) {
      throw this.#gone(err)
    }
    return Buffer.concat(parts)
  }

  /** @param {http.IncomingMessage} response @param {AbortSignal} [signal] */
  async *#events(response, signal) {
    let name = '', rest = ''
    try {
      for await (const part of response.setEncoding('utf8')) {
        const lines = (rest + part).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) {
          if (line.startsWith('event: ')) name = line.slice(7)
          if (!line.startsWith('data: ')) continue
          const data = JSON.parse(line.slice(6))
          if (name === 'error') throw failure(data)
          yield data
          name = ''
        }
      }
    } catch (err) {
      signal?.throwIfAborted()
      throw err instanceof AmberfsError ? err : this.#gone(err)
    } finally {
      response.destroy()
    }
  }

  /** @param {unknown} cause */
  #gone(cause) {
    const err = new FailedError({ error: `the daemon of the store ${this.store} does not answer`, hint: 'its log is amberfs.log in the store' })
    err.cause = cause
    return err
  }
}

class Call {
  /** @param {string} root */
  constructor(root) {
    this.root = root
  }

  /** @param {string} fork @returns {Transport} */
  inside(fork) {
    return new Call(path.join(this.root, '.forks', fork))
  }

  /** @param {string} op @param {Record<string, any>} args @param {AbortSignal} [signal] @returns {Promise<any>} */
  async send(op, args, signal) {
    if (op === 'events' && args.follow) return this.#follow(args, signal)
    for (let asked = 1; ; asked++) {
      try {
        return await this.#once(op, args)
      } catch (err) {
        // The daemon died before it carried the request out: the next one is asked.
        if (!(err instanceof NotAsked) || asked === 10) throw err
      }
    }
  }

  /** @param {string} op @param {Record<string, any>} args @returns {Promise<any>} */
  async #once(op, args) {
    const name = path.join(this.root, '.snapshots', 'call.' + randomBytes(12).toString('hex'))
    try {
      const file = await fs.open(name, 'wx+', 0o600)
      /** @type {any} */
      let failed
      let text
      try {
        // A write that fails is answered, too. The answer follows the request.
        failed = await file.writeFile(JSON.stringify({ op, ...args })).catch(err => err)
        if (failed?.code === 'ESTALE') throw new NotAsked(failed.message)
        text = await file.readFile('utf8').catch(err => { throw failed ?? err })
      } finally {
        await file.close()
      }
      if (!text.trim()) throw failed ?? new FailedError({ error: 'the mount did not answer' })
      const answer = JSON.parse(text)
      if (!('ok' in answer)) throw overlaid(this.root) // it is the request itself
      if (!answer.ok) throw failure(answer)
      const stream = answer.stream ? await fs.readFile(name + '.stream') : undefined
      switch (streams[op]) {
        case 'text': return stream ? stream.toString() : answer.text ?? ''
        case 'bytes': return stream ?? Buffer.from(answer.text ?? '')
        case 'events': return each(stream ? stream.toString().split('\n').filter(Boolean).map(line => JSON.parse(line)) : answer.items ?? [])
      }
      return answer.result
    } finally {
      await fs.rm(name, { force: true })
    }
  }

  /**
   * Asks again and again: only the socket follows.
   * @param {Record<string, any>} args @param {AbortSignal} [signal]
   */
  async *#follow({ follow: _, ...args }, signal) {
    if (args.new) {
      delete args.new
      for await (const last of await this.send('events', { limit: 1 })) args.after = last.seq
    }
    for (;;) {
      for await (const event of await this.send('events', args)) {
        args = { ...args, after: event.seq, limit: undefined }
        yield event
      }
      await pause(200, undefined, { signal })
    }
  }
}

/** No daemon has carried the request out. */
class NotAsked extends Error {}

/** @param {any[]} items */
async function* each(items) {
  yield* items
}
