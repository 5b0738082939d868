// Which workspace a directory belongs to, by the kernel's table of mounts.
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { DeniedError, FailedError, NotFoundError } from './generated.js'

/** Types of file systems that write beside what they show. */
const overlays = ['overlay', 'aufs', 'fuse.fuse-overlayfs', 'fuse.unionfs']

/**
 * A workspace: where it is mounted, its store ('' if unknown), and the forks that lead to it
 * ('' for main, else as a/b).
 * @typedef {{root: string, store: string, workspace: string}} Place
 */

/** @typedef {Place & {user?: number}} Found what the table of mounts has, with the user that mounted it */

/** @param {string} dir @returns {Promise<Place>} */
export async function locate(dir) {
  const real = await fs.realpath(dir)
  const table = await fs.readFile('/proc/self/mountinfo', 'utf8').catch(() => '')
  const place = find(real, table)
  if (place) await checkStore(place)
  return place ?? behind(real, table)
}

/**
 * Anybody may mount a file system as fuse.amberfs, with any source. What nobody can choose is
 * the user that mounted it, so that user's mounts count for that user, and root's for everybody.
 * @param {{point: string, user: number | undefined}} on @param {number} caller
 */
function checkUser(on, caller) {
  if (on.user === 0 || on.user === caller || on.user !== undefined && caller === 0) return
  throw new DeniedError({ error: `${on.point} is a mount of another user`, hint: 'only that user and root can use it' })
}

/** The store is of the user that mounted it: root may use another user's mount. @param {Found} place */
async function checkStore(place) {
  if (!place.user || place.user === process.geteuid?.()) return
  const map = await fs.readFile('/proc/self/uid_map', 'utf8').catch(() => '')
  const owner = await fs.stat(place.store).catch(() => null)
  if (!owner || owner.uid === place.user || !/^\s*0\s+0\s+4294967295\s*$/.test(map)) return
  throw new DeniedError({ error: `the store ${place.store} is of another user than the mount`, hint: '' })
}

/** The error for a workspace below an overlay: what is written to control files stays in the overlay. @param {string} root */
export const overlaid = root => new FailedError({
  error: `${root} is an overlay over an amberfs workspace: snapshots and restores do nothing in it`,
  hint: 'give the sandbox the workspace itself, without `:O` or an overlay',
})

/** The mount that a path is on. @param {string} p @param {string} table */
function mountOf(p, table) {
  /** @type {Row} */
  let on = { root: '/', point: '/', type: '', source: '', user: undefined }
  for (const m of parse(table)) {
    if (below(p, m.point) && m.point.length >= on.point.length) on = m
  }
  return on
}

/**
 * The workspace of a directory, by a table as /proc/self/mountinfo; undefined if another file
 * system is mounted there.
 * @param {string} real @param {string} table @param {number} [caller] @returns {Found | undefined}
 */
export function find(real, table, caller = process.geteuid?.() ?? 0) {
  const on = mountOf(real, table)
  if (on.type === 'fuse.amberfs' || on.user !== undefined) checkUser(on, caller)
  if (on.type !== 'fuse.amberfs') return undefined
  const inside = path.join(on.root, path.relative(on.point, real)).split('/').filter(Boolean)
  const forks = []
  for (; inside.length >= 2 && inside[0] === '.forks'; inside.splice(0, 2)) forks.push(inside[1])
  const top = '/' + forks.map(name => '.forks/' + name).join('/')
  if (!below(top, on.root)) {
    throw new NotFoundError({ error: `${on.point} shows only a part of a workspace`, kind: 'not-found', hint: 'mount the root of the workspace' })
  }
  return { root: path.join(on.point, path.relative(on.root, top)), store: on.source, workspace: forks.join('/'), user: on.user }
}

/** Types of FUSE and virtiofs, and of 9p, as statfs(2) has them. */
const types = [0x65735546, 0x01021997]

/**
 * The nearest directory above with control files: in a virtual machine or gVisor, the mount
 * has another type. Anybody may make such files on another file system, or in a directory below.
 * @param {string} real @param {string} table @returns {Promise<Place>}
 */
async function behind(real, table) {
  for (let dir = real; ; dir = path.dirname(dir)) {
    const found = await fs.lstat(path.join(dir, '.snapshots/call')).catch(() => null)
    if (found && overlays.includes(mountOf(dir, table).type)) throw overlaid(dir)
    if (found && await isControl(path.join(dir, '.snapshots'))) return { root: dir, store: '', workspace: '' }
    if (dir === path.dirname(dir)) break
  }
  throw new NotFoundError({ error: `${real} is not inside an amberfs mount`, kind: 'not-found', hint: 'mount a workspace with `amberfs mount STORE MOUNTPOINT`' })
}

/** @param {string} dir */
async function isControl(dir) {
  const [{ type }, { uid }] = await Promise.all([fs.statfs(dir), fs.lstat(dir)])
  return types.includes(type) && [0, process.geteuid?.()].includes(uid)
}

/** @param {string} p @param {string} dir */
const below = (p, dir) => dir === '/' || p === dir || p.startsWith(dir + '/')

/** @typedef {{root: string, point: string, type: string, source: string, user: number | undefined}} Row */

/** @param {string} table @returns {Row[]} */
function parse(table) {
  return table.split('\n').filter(Boolean).map(line => {
    const fields = line.split(' ').map(f => f.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8))))
    const end = fields.indexOf('-')
    const user = /(?:^|,)user_id=(\d+)(?:,|$)/.exec(fields[end + 3] ?? '')
    return { root: fields[3], point: fields[4], type: fields[end + 1], source: fields[end + 2], user: user ? Number(user[1]) : undefined }
  })
}

