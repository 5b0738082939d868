// Run by tests/clients, which mounts a workspace: AMBERFS_TEST_MOUNT.
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { AmberfsSnapshotter, ConflictError, DeniedError, ExistsError, NotFoundError, UsageError, Workspace } from '../src/index.js'
import { find } from '../src/locate.js'

const mount = process.env.AMBERFS_TEST_MOUNT ?? ''
const remote = process.env.AMBERFS_TEST_REMOTE_NAME ?? ''
/** @param {Workspace} ws @param {string} name @param {string} text */
const write = (ws, name, text) => writeFile(path.join(ws.path, name), text)
/** @param {{path: string}} ws @param {string} name */
const read = (ws, name) => readFile(path.join(ws.path, name), 'utf8')
/** Each test has a fork of its own. @param {string} name @param {(ws: import('../src/index.js').Fork) => Promise<void>} fn */
const inFork = (name, fn) => test(name, async () => {
  const fork = await (await Workspace.open(mount)).fork()
  try {
    await fn(fork)
  } finally {
    await fork.discard({ force: true })
  }
})

inFork('snapshots, diff, restore and undo', async ws => {
  await write(ws, 'a', 'one\n')
  const s = await ws.snapshot('first', { message: 'm', labels: { k: 'v' }, wait: true })
  assert.equal(s.name, 'first')
  assert.match(s.id, /^[0-9a-f]{64}$/)
  await write(ws, 'a', 'two\n')
  await write(ws, 'ä', 'ö\n')
  assert.match(await ws.diff(s), /^-one\n\+two$/m)
  assert.match(await ws.diff(), /^\+two$/m)
  assert.deepEqual((await ws.changes(s)).paths.map(p => p.status + p.path), ['Ma', 'Aä'])
  assert.equal((await ws.restore(s, { paths: ['a'] })).changed, 1)
  assert.equal(await read(ws, 'a'), 'one\n')
  assert.equal(await read(ws, 'ä'), 'ö\n')
  await ws.undo()
  assert.equal(await read(ws, 'a'), 'two\n')
  assert.deepEqual((await ws.list({ labels: { k: 'v' } })).map(s => s.message), ['m'])
  assert.equal(await ws.diff(s, s), '')
})

inFork('a long diff, and bytes', async ws => {
  const s = await ws.snapshot()
  const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => i % 251)
  await writeFile(path.join(ws.path, 'bytes'), bytes)
  await write(ws, 'lines', 'a line\n'.repeat(50_000))
  assert.equal((await ws.diff(s, '', { paths: ['lines'] })).split('\n+a line').length, 50_001)
  assert.deepEqual(new Uint8Array(await ws.call('file', { path: 'bytes' })), bytes)
  assert.equal(Buffer.from(await ws.call('file', { path: 'lines', limit: 7 })).toString(), 'a line\n')
})

inFork('forks: merge, conflict, discard, dispose', async ws => {
  await write(ws, 'a', '1\n2\n3\n')
  const f = await ws.fork('try')
  assert.equal(f.path, path.join(ws.path, '.forks/try'))
  await assert.rejects(ws.fork('try'), ExistsError)
  await write(f, 'a', 'one\n2\n3\n')
  await f.snapshot('inside')
  await write(ws, 'a', '1\n2\nthree\n')
  assert.equal((await f.merge()).changed, 1)
  assert.equal(await read(ws, 'a'), 'one\n2\nthree\n')
  await write(f, 'a', 'uno\n2\n3\n')
  await assert.rejects(f.merge(), err => err instanceof ConflictError && /** @type {any} */ (err.result).conflicts[0] === 'a')
  const again = await ws.openFork('try')
  assert.deepEqual((await again.list()).map(s => s.name).filter(n => n === 'inside'), ['inside'])
  await f[Symbol.asyncDispose]()
  await f[Symbol.asyncDispose]() // nothing is left to do
  assert.deepEqual(await ws.forks(), [])
  assert.deepEqual((await ws.list({ kind: 'fork' })).map(s => s.name), ['try'])
  const g = await ws.fork('gone', { snapshot: 'try' })
  assert.equal(await read(g, 'a'), 'uno\n2\n3\n')
  await g.discard()
  assert.deepEqual((await ws.list({ kind: 'fork' })).map(s => s.name), ['try'])
})

inFork('claim', async ws => {
  const first = await ws.claim('job')
  assert.equal(first.tier, 'fresh')
  await write(first, 'a', 'x')
  await first[Symbol.asyncDispose]()
  const second = await ws.claim('job')
  assert.equal(second.tier, 'resumed')
  assert.equal(await read(second, 'a'), 'x')
})

inFork('events', async ws => {
  await write(ws, 'a', 'x')
  const seen = []
  for await (const e of ws.events({ follow: true })) {
    seen.push(e.path)
    if (e.path === 'a') await write(ws, 'b', 'x')
    if (e.path === 'b') break
  }
  assert.deepEqual([...new Set(seen.filter(p => p))], ['a', 'b'])
  const last = []
  for await (const e of ws.events({ limit: 1, action: 'created' })) last.push(e.path)
  assert.deepEqual(last, ['b'])
  const end = new AbortController()
  await assert.rejects(async () => {
    for await (const e of ws.events({ follow: true, signal: end.signal })) if (e.path === 'b') end.abort()
  }, { name: 'AbortError' })
  await assert.rejects(async () => { for await (const _ of ws.events({ action: 'x', limit: -1 }));}, UsageError)
})

inFork('errors', async ws => {
  await assert.rejects(ws.restore('none'), err => err instanceof NotFoundError && err.kind === 'not-found' && /none/.test(err.message))
  await assert.rejects(ws.call('list', /** @type {any} */ ({ naem: 1 })), UsageError)
  await assert.rejects(ws.diff('none'), NotFoundError)
  await assert.rejects(ws.openFork('none'), NotFoundError)
  await assert.rejects(Workspace.open('/'), NotFoundError)
})

test('references', async () => {
  const ws = await Workspace.open(mount)
  await write(ws, 'kept', 'then')
  const snapshotter = new AmberfsSnapshotter(ws, { remote })
  const state = JSON.parse(JSON.stringify(await snapshotter.snapshot()))
  assert.equal(state.providerId, 'amberfs')
  await write(ws, 'kept', 'now')
  const a = await snapshotter.restore(state)
  assert.equal(await read(a, 'kept'), 'then')
  assert.equal(await read(ws, 'kept'), 'now')
  await writeFile(path.join(a.path, 'kept'), 'a')
  const b = await snapshotter.branch(await snapshotter.snapshot(a))
  const c = await snapshotter.branch(b)
  assert.equal(await read(c, 'kept'), 'a')
  await snapshotter.discard(a)
  // As on another machine: the store has the state no more, and the remote has it.
  for (const s of await ws.list()) if (s.id === state.ref.slice(1)) await ws.call('remove', { names: [s.name] })
  await assert.rejects(new AmberfsSnapshotter(ws).restore(state), NotFoundError)
  const d = await snapshotter.restore(state)
  assert.equal(await read(d, 'kept'), 'then')
  await snapshotter.discard(d)
})

test('a directory inside', async () => {
  const ws = await Workspace.open(mount)
  await mkdir(path.join(mount, 'deep/er'), { recursive: true })
  assert.equal((await Workspace.open(path.join(mount, 'deep/er'))).path, ws.path)
  await rm(path.join(mount, 'deep'), { recursive: true })
})

test('the table of mounts', () => {
  const table = `22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw
40 22 0:50 / /home/ann/ws rw,nosuid shared:9 - fuse.amberfs /home/ann/my\\040store rw,user_id=1000
41 22 0:50 /.forks/try /sandbox/w rw - fuse.amberfs /home/ann/my\\040store rw,user_id=1000
42 40 0:60 / /home/ann/ws/build rw - tmpfs tmpfs rw
43 22 0:50 /.forks/try/.forks/deep/src /src rw - fuse.amberfs /home/ann/my\\040store rw,user_id=1000
`
  const store = '/home/ann/my store'
  assert.deepEqual(find('/home/ann/ws/a/b', table, 1000), { root: '/home/ann/ws', store, workspace: '', user: 1000 })
  assert.deepEqual(find('/home/ann/ws/.forks/try/a', table, 1000), { root: '/home/ann/ws/.forks/try', store, workspace: 'try', user: 1000 })
  assert.deepEqual(find('/home/ann/ws/.snapshots/v1', table, 1000), { root: '/home/ann/ws', store, workspace: '', user: 1000 })
  assert.deepEqual(find('/sandbox/w/.forks/x/a', table, 1000), { root: '/sandbox/w/.forks/x', store, workspace: 'try/x', user: 1000 })
  assert.deepEqual(find('/sandbox/w', table, 1000), { root: '/sandbox/w', store, workspace: 'try', user: 1000 })
  for (const dir of ['/', '/home/ann', '/home/ann/ws2', '/home/ann/ws/build']) assert.equal(find(dir, table, 1000), undefined)
  assert.throws(() => find('/src/pkg', table, 1000), NotFoundError)
  // Anybody may mount a file system of that name.
  assert.throws(() => find('/home/ann/ws', table, 1001), DeniedError)
  assert.throws(() => find('/home/ann/ws', table.replaceAll(',user_id=1000', ''), 1000), DeniedError)
  assert.equal(find('/home/ann/ws', table.replaceAll('=1000', '=0'), 1001)?.user, 0)
})

test('control files that another user made, or that are on another file system', async () => {
  const dir = await mkdtemp(path.join(tmpdir(), 'amberfs-'))
  await mkdir(path.join(dir, '.snapshots'))
  await writeFile(path.join(dir, '.snapshots/call'), '')
  await assert.rejects(Workspace.open(dir), NotFoundError)
  await rm(dir, { recursive: true })
})
