// Which workspace a directory belongs to, by the kernel's table of mounts.
import { promises as fs } from 'node:fs'
import path from 'node:path'
import { NotFoundError } from './generated.js'

/**
 * A workspace: where it is mounted, its store ('' if unknown), and the forks that lead to it
 * ('' for main, else as a/b).
 * @typedef {{root: string, store: string, workspace: string}} Place
 */

/** @param {string} dir @returns {Promise<Place>} */
export async function locate(dir) {
  const real = await fs.realpath(dir)
  return find(real, await fs.readFile('/proc/self/mountinfo', 'utf8').catch(() => '')) ?? behind(real)
}

/**
 * The workspace of a directory, by a table as /proc/self/mountinfo; undefined if another file
 * system is mounted there.
 * @param {string} real @param {string} table @returns {Place | undefined}
 */
export function find(real, table) {
  let on = { root: '/', point: '/', type: '', source: '' }
  for (const m of parse(table)) {
    if (below(real, m.point) && m.point.length >= on.point.length) on = m
  }
  if (on.type !== 'fuse.amberfs') return undefined
  const inside = path.join(on.root, path.relative(on.point, real)).split('/').filter(Boolean)
  const forks = []
  for (; inside.length >= 2 && inside[0] === '.forks'; inside.splice(0, 2)) forks.push(inside[1])
  const top = '/' + forks.map(name => '.forks/' + name).join('/')
  if (!below(top, on.root)) {
    throw new NotFoundError({ error: `${on.point} shows only a part of a workspace`, hint: 'mount the root of the workspace' })
  }
  return { root: path.join(on.point, path.relative(on.root, top)), store: on.source, workspace: forks.join('/') }
}

/**
 * The nearest directory above with control files: in a virtual machine or gVisor, the mount
 * has another type.
 * @param {string} real @returns {Promise<Place>}
 */
async function behind(real) {
  for (let dir = real; ; dir = path.dirname(dir)) {
    const found = await fs.lstat(path.join(dir, '.snapshots/call')).catch(() => null)
    if (found) return { root: dir, store: '', workspace: '' }
    if (dir === path.dirname(dir)) break
  }
  throw new NotFoundError({ error: `${real} is not inside an amberfs mount`, hint: 'mount a workspace with `amberfs mount STORE MOUNTPOINT`' })
}

/** @param {string} p @param {string} dir */
const below = (p, dir) => dir === '/' || p === dir || p.startsWith(dir + '/')

/** @param {string} table */
function parse(table) {
  return table.split('\n').filter(Boolean).map(line => {
    const fields = line.split(' ').map(f => f.replace(/\\([0-7]{3})/g, (_, octal) => String.fromCharCode(parseInt(octal, 8))))
    const end = fields.indexOf('-')
    return { root: fields[3], point: fields[4], type: fields[end + 1], source: fields[end + 2] }
  })
}

