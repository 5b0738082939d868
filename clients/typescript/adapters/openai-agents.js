// A sandbox client for the OpenAI Agents SDK (tried with @openai/agents 0.20): each session
// works in a fork of a workspace, where all that its commands change stays apart until it is
// merged.
import { normalizeSandboxClientCreateArgs } from '@openai/agents/sandbox'
import { UnixLocalSandboxClient, UnixLocalSandboxSession } from '@openai/agents/sandbox/local'

/**
 * @typedef {import('@amberfs/client').Workspace} Workspace
 * @typedef {import('@amberfs/client').Fork} Fork
 */

export class AmberfsSandboxSession extends UnixLocalSandboxSession {
  /** @param {any} args @param {Fork} fork */
  constructor(args, fork) {
    super(args)
    /** What the agent works in: diff, snapshot, merge, … It stays when the session is closed. */
    this.fork = fork
  }

  /** Closes the session, and deletes the fork. Its last state stays as a snapshot. */
  async delete() {
    await super.close()
    await this.fork.delete({ force: true })
  }
}

export class AmberfsSandboxClient extends UnixLocalSandboxClient {
  backendId = /** @type {any} */ ('amberfs')

  /**
   * Sessions begin with the present state of the workspace, or with a snapshot. With ttl, as
   * '7d', forks that are not deleted earlier end then. The other options are those of
   * UnixLocalSandboxClient.
   * @param {Workspace} workspace @param {{snapshot?: string, ttl?: string, [option: string]: unknown}} [options]
   */
  constructor(workspace, { snapshot, ttl, ...options } = {}) {
    super(options)
    this.workspace = workspace
    this.fork = { snapshot, ttl }
    this.defaults = options
  }

  /** @param {any} [args] @param {any} [manifestOptions] @returns {Promise<AmberfsSandboxSession>} */
  async create(args, manifestOptions) {
    const { manifest, options } = normalizeSandboxClientCreateArgs(args, manifestOptions)
    const session = this.#session(await this.workspace.fork(undefined, this.fork), {
      ...this.defaults, ...options, manifest, environment: await manifest.resolveEnvironment(),
    })
    await session.applyManifest(manifest)
    return session
  }

  /** Goes on in the fork of a session. @param {any} state @returns {Promise<AmberfsSandboxSession>} */
  async resume(state) {
    return this.#session(await this.workspace.openFork(state.fork), { ...this.defaults, ...state })
  }

  /** @param {any} state */
  async serializeSessionState(state) {
    return { ...await super.serializeSessionState(state), fork: state.fork }
  }

  /** @param {any} state */
  async deserializeSessionState(state) {
    return { ...await super.deserializeSessionState(state), fork: state.fork }
  }

  /** @param {Fork} fork @param {any} options */
  #session(fork, { manifest, environment, defaultShell, fileIOProtection, archiveLimits, exposedPorts = [] }) {
    return new AmberfsSandboxSession({
      defaultShell, fileIOProtection, archiveLimits,
      state: {
        manifest, environment, fork: fork.name, workspaceRootPath: fork.path, workspaceRootOwned: false,
        snapshotSpec: null, snapshot: null, configuredExposedPorts: exposedPorts,
      },
    }, fork)
  }
}
