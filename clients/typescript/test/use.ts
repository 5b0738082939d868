// Compiled by tests/clients, never run: what users of the types write.
import { AmberfsSnapshotter, ConflictError, Workspace, type Operations, type Snapshot } from '@amberfs/client'

const ws = await Workspace.open('.')
const s: Snapshot = await ws.snapshot('x', { message: 'before', labels: { run: '1' } })
{
  await using f = await ws.fork()
  await f.merge({ theirs: true })
}
await ws.restore(s, { paths: ['src'] })
for await (const e of ws.events({ follow: true })) console.log(e.action, e.path)
const args: Operations['blame']['args'] = { path: 'a' }
const line: string = (await ws.call('blame', args)).lines[0].text
const text: string = await ws.call('diff', { a: line })
const ref: { providerId: string; ref: string } = await new AmberfsSnapshotter(ws, { remote: text }).snapshot()
console.log(ref)
try {
  await ws.undoBy('agent')
} catch (err) {
  if (err instanceof ConflictError && err.kind === 'conflict') console.log(err.hint)
}

// @ts-expect-error: an operation that there is not
await ws.call('lsit', {})
// @ts-expect-error: an argument that there is not
await ws.snapshot('x', { mesage: 'm' })
// @ts-expect-error: without a name
await ws.call('fork', {})
