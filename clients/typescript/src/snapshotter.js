import { randomBytes } from 'node:crypto'
import { NotFoundError } from './generated.js'
import { Workspace } from './index.js'

/**
 * A state. ref is opaque text: it outlives the daemon and, if it was pushed, this machine.
 * @typedef {{providerId: string, ref: string}} SnapshotRef
 */
/**
 * A workspace, and the directory where its files are.
 * @typedef {{providerId: string, ref: string, path: string}} WorkspaceRef
 */

/**
 * Snapshots for harnesses that know a workspace only by references: restore and branch return
 * new workspaces, and leave the present one as it is.
 */
export class AmberfsSnapshotter {
  providerId = 'amberfs'

  /**
   * With a remote, its name or URL, snapshots are pushed there, and found there.
   * @param {Workspace} workspace @param {{remote?: string}} [options]
   */
  constructor(workspace, { remote } = {}) {
    this.workspace = workspace
    this.remote = remote
  }

  /** @param {string} [dir] @param {{remote?: string}} [options] */
  static async open(dir, options) {
    return new AmberfsSnapshotter(await Workspace.open(dir), options)
  }

  /**
   * A state of the workspace, or of another one, as it is now.
   * @param {{ref: string}} [of] @returns {Promise<SnapshotRef>}
   */
  async snapshot(of) {
    const { at, id } = parse(of?.ref ?? '')
    if (id) return this.#ref(`${at}@${id}`)
    const workspace = await this.#open(at)
    const made = await workspace.snapshot(undefined, { wait: true })
    if (this.remote) await workspace.push(made, { remote: this.remote, as: `ref-${made.id.slice(0, 16)}` })
    return this.#ref(`${at}@${made.id}`)
  }

  /** A new workspace with a state. @param {{ref: string}} of */
  restore(of) {
    return this.#make('restore', of)
  }

  /** A new workspace with a state, or with that of a workspace as it is now. @param {{ref: string}} of */
  branch(of) {
    return this.#make('branch', of)
  }

  /** Deletes a workspace that restore or branch made. @param {{ref: string}} of */
  async discard(of) {
    const forks = parse(of.ref).at.split('/')
    const name = /** @type {string} */ (forks.pop())
    await (await this.#open(forks.join('/'))).call('delete-fork', { name, discard: true })
  }

  /** @param {string} kind @param {{ref: string}} of @returns {Promise<WorkspaceRef>} */
  async #make(kind, of) {
    const name = `${kind}-${randomBytes(5).toString('hex')}`
    const { at, id } = parse(of.ref)
    try {
      const fork = await (await this.#open(at)).fork(name, { snapshot: id })
      return { ...this.#ref(at ? `${at}/${name}` : name), path: fork.path }
    } catch (err) {
      if (!(err instanceof NotFoundError && id && this.remote)) throw err
    }
    const fork = await this.workspace.fork(name, { snapshot: `${this.remote}@${id}` })
    return { ...this.#ref(name), path: fork.path }
  }

  /** @param {string} forks */
  async #open(forks) {
    let workspace = this.workspace
    for (const name of forks.split('/').filter(Boolean)) workspace = await workspace.openFork(name)
    return workspace
  }

  /** @param {string} ref */
  #ref(ref) {
    return { providerId: this.providerId, ref }
  }
}

/** A ref is FORK/FORK@ID, without the forks for the workspace itself, or FORK/FORK. @param {string} ref */
function parse(ref) {
  const [at, id] = ref.split('@')
  return { at, id }
}
