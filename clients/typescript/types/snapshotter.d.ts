import { Workspace } from './index.js';
export type SnapshotRef = {
    providerId: string;
    ref: string;
};
export type WorkspaceRef = {
    providerId: string;
    ref: string;
    path: string;
};
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
export declare class AmberfsSnapshotter {
    #private;
    workspace: Workspace;
    remote: string | undefined;
    providerId: string;
    /**
     * With a remote, its name or URL, snapshots are pushed there, and found there.
     * @param {Workspace} workspace @param {{remote?: string}} [options]
     */
    constructor(workspace: Workspace, { remote }?: {
        remote?: string;
    });
    /** @param {string} [dir] @param {{remote?: string}} [options] */
    static open(dir?: string, options?: {
        remote?: string;
    }): Promise<AmberfsSnapshotter>;
    /**
     * A state of the workspace, or of another one, as it is now.
     * @param {{ref: string}} [of] @returns {Promise<SnapshotRef>}
     */
    snapshot(of?: {
        ref: string;
    }): Promise<SnapshotRef>;
    /** A new workspace with a state. @param {{ref: string}} of */
    restore(of: {
        ref: string;
    }): Promise<WorkspaceRef>;
    /** A new workspace with a state, or with that of a workspace as it is now. @param {{ref: string}} of */
    branch(of: {
        ref: string;
    }): Promise<WorkspaceRef>;
    /** Deletes a workspace that restore or branch made. @param {{ref: string}} of */
    discard(of: {
        ref: string;
    }): Promise<void>;
}
