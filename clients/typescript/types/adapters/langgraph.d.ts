import type { Fork, Operations, Workspace } from '@amberfs/client'

/** What a checkpointer of LangGraph has. */
export interface Saver {
  put: Function
  getTuple: Function
}

/**
 * A checkpointer that does what saver does, and takes a snapshot for each checkpoint. Call
 * the graph with `durability: 'sync'`, else steps do not wait for their checkpoints.
 */
export declare function withSnapshots<S extends Saver>(saver: S, workspace: Workspace): S

/** The snapshot of a checkpoint: of the newest of a thread, or of the one that config names. */
export declare function snapshotOf(saver: Saver, config: object): Promise<string>

/** Restores the files of a checkpoint. Then `graph.invoke(null, config)` goes on from there. */
export declare function restoreFiles(saver: Saver, workspace: Workspace, config: object): Promise<Operations['restore']['result']>

/** A fork with the files of a checkpoint: another try, which leaves the workspace as it is. */
export declare function forkFiles(saver: Saver, workspace: Workspace, config: object): Promise<Fork>
