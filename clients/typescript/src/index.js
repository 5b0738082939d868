// Snapshots, forks and undo of an amberfs workspace. Files stay files: work on them with
// node:fs below workspace.path.
import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { NotFoundError } from './generated.js'
import { locate } from './locate.js'
import { connect } from './transport.js'

export * from './generated.js'
export { AmberfsSnapshotter } from './snapshotter.js'

/**
 * @typedef {import('../types/api.js').Operations} Operations
 * @typedef {import('../types/api.js').Info} Snapshot
 * @typedef {import('../types/api.js').Event} Event
 * @typedef {string | {name: string}} Named A snapshot or a fork, or the name of one.
 */
/**
 * Arguments of an operation, without those that a method has by itself.
 * @template {keyof Operations} Op
 * @template {PropertyKey} [Own=never]
 * @typedef {Omit<Operations[Op]['args'], Own>} Options
 */

/** @param {Named} of */
const nameOf = of => typeof of === 'string' ? of : of.name

/** @param {Named | Named[]} of */
const namesOf = of => (Array.isArray(of) ? of : [of]).map(nameOf)

export class Workspace {
  #transport

  /** Use Workspace.open. @param {string} root @param {import('./transport.js').Transport} transport */
  constructor(root, transport) {
    /** The directory of the workspace. */
    this.path = root
    this.#transport = transport
  }

  /** The workspace that a directory is in: main, or a fork. @param {string} [dir] */
  static async open(dir = '.') {
    const place = await locate(dir)
    return new Workspace(place.root, await connect(place))
  }

  /**
   * Any operation of docs/api/openapi.yaml.
   * @template {keyof Operations} Op
   * @param {Op} op @param {Operations[Op]['args']} args @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Operations[Op]['result']>}
   */
  call(op, args, options = {}) {
    return this.#transport.send(op, args, options.signal)
  }

  /** Takes a snapshot. @param {string} [name] @param {Options<'snapshot', 'name'>} [options] */
  snapshot(name, options) {
    return this.call('snapshot', { ...options, name })
  }

  /** The snapshots, newest first. @param {Options<'list'>} [options] */
  async list(options = {}) {
    return (await this.call('list', options)).snapshots
  }

  /** The unified diff from a snapshot, by default the state that the workspace began from, to another, or to now. @param {Named} [a] @param {Named} [b] @param {Options<'diff', 'a' | 'b'>} [options] */
  diff(a = 'base', b, options) {
    return this.call('diff', { ...options, a: nameOf(a), b: b && nameOf(b) })
  }

  /** The paths that differ between a snapshot, by default the state that the workspace began from, and another, or now. @param {Named} [a] @param {Named} [b] @param {Options<'changes', 'a' | 'b'>} [options] */
  changes(a = 'base', b, options) {
    return this.call('changes', { ...options, a: nameOf(a), b: b && nameOf(b) })
  }

  /** What changed since the last look: deleted and overwritten files first, and how to undo it. @param {Options<'changed'>} [options] */
  changed(options) {
    return this.call('changed', { ...options })
  }

  /** Makes the workspace, or some paths of it, equal to a snapshot. @param {Named} to @param {Options<'restore', 'name'>} [options] */
  restore(to, options) {
    return this.call('restore', { ...options, name: nameOf(to) })
  }

  /** Undoes the last restore or merge. @param {Options<'restore', 'name'>} [options] */
  undo(options) {
    return this.restore('undo', options)
  }

  /** Undoes what one actor changed. @param {string} actor @param {Options<'undo-by', 'by'>} [options] */
  undoBy(actor, options) {
    return this.call('undo-by', { ...options, by: actor })
  }

  /**
   * A writable copy of the present state, or of a snapshot. At the end of an `await using` it
   * is deleted, and its last state stays as a snapshot.
   * @param {string} [name] @param {Options<'fork', 'name'>} [options]
   */
  async fork(name = 'fork-' + randomBytes(5).toString('hex'), options) {
    const { snapshot } = await this.call('fork', { ...options, name })
    return new Fork(this, name, this.#transport.inside(name), { from: snapshot })
  }

  /** The fork with a label; if there is none, it is created. It stays. @param {string} label @param {Options<'claim', 'label'>} [options] */
  async claim(label, options) {
    const { tier, from } = await this.call('claim', { ...options, label })
    return new Fork(this, label, this.#transport.inside(label), { tier, from, stays: true })
  }

  async forks() {
    return (await this.call('forks', {})).forks
  }

  /** A fork that exists. It stays. @param {Named} fork */
  async openFork(fork) {
    const name = nameOf(fork)
    const found = (await this.forks()).find(f => f.name === name)
    if (!found) throw new NotFoundError({ error: `there is no fork ${name}`, kind: 'not-found' })
    return new Fork(this, name, this.#transport.inside(name), { from: found.base, stays: true })
  }

  /**
   * The events, oldest first. With follow, they continue until the loop or the signal ends.
   * @param {Options<'events'> & {signal?: AbortSignal}} [options]
   * @returns {AsyncGenerator<Event, void, void>}
   */
  async *events({ signal, ...options } = {}) {
    yield* await this.call('events', options, { signal })
  }

  /** Sends snapshots to a remote. @param {Named | Named[]} snapshots @param {Options<'push', 'snapshots'>} [options] */
  async push(snapshots, options) {
    return (await this.call('push', { ...options, snapshots: namesOf(snapshots) })).pushed
  }

  /** Gets snapshots of a remote, by their names there or their ids. @param {string} remote @param {Named | Named[]} snapshots @param {Options<'pull', 'remote' | 'snapshots'>} [options] */
  async pull(remote, snapshots, options) {
    return (await this.call('pull', { ...options, remote, snapshots: namesOf(snapshots) })).pulled
  }
}

/** A fork is a workspace, too. */
export class Fork extends Workspace {
  #stays

  /** @param {Workspace} parent @param {string} name @param {import('./transport.js').Transport} transport @param {{tier?: string, from?: string, stays?: boolean}} made */
  constructor(parent, name, transport, { tier, from, stays = false }) {
    super(path.join(parent.path, '.forks', name), transport)
    this.parent = parent
    this.name = name
    /** The snapshot it began with. */
    this.from = from
    /** Of claim: resumed, snapshot or fresh. Else undefined. */
    this.tier = tier
    this.#stays = stays
  }

  /** Merges the changes into the parent. A conflict is a ConflictError, and changes nothing. @param {Options<'merge', 'fork'>} [options] */
  merge(options) {
    return this.parent.call('merge', { ...options, fork: this.name })
  }

  /** Deletes the fork, and keeps its last state as a snapshot of the parent. @param {Options<'delete-fork', 'name'>} [options] */
  async delete(options) {
    const deleted = await this.parent.call('delete-fork', { ...options, name: this.name })
    this.#stays = true // nothing is left to delete
    return deleted
  }

  /** Deletes the fork, the forks in it, and all that is only there. @param {Options<'delete-fork', 'name' | 'discard'>} [options] */
  discard(options) {
    return this.delete({ ...options, discard: true })
  }

  async [Symbol.asyncDispose]() {
    if (!this.#stays) await this.delete()
  }
}
