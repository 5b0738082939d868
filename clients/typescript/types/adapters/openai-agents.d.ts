import { UnixLocalSandboxClient, UnixLocalSandboxSession, type UnixLocalSandboxClientOptions } from '@openai/agents/sandbox/local'
import type { Fork, Workspace } from '@amberfs/client'

export declare class AmberfsSandboxSession extends UnixLocalSandboxSession {
  /** What the agent works in: diff, snapshot, merge, … It stays when the session is closed. */
  readonly fork: Fork
  /** Closes the session, and deletes the fork. Its last state stays as a snapshot. */
  delete(): Promise<void>
}

export declare class AmberfsSandboxClient extends UnixLocalSandboxClient {
  /**
   * Sessions begin with the present state of the workspace, or with a snapshot. With ttl, as
   * '7d', forks that are not deleted earlier end then.
   */
  constructor(workspace: Workspace, options?: { snapshot?: string; ttl?: string } & UnixLocalSandboxClientOptions)
  create(...args: Parameters<UnixLocalSandboxClient['create']>): Promise<AmberfsSandboxSession>
  resume(...args: Parameters<UnixLocalSandboxClient['resume']>): Promise<AmberfsSandboxSession>
}
