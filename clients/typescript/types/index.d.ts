export * from './generated.js';
export { AmberfsSnapshotter } from './snapshotter.js';
export type Operations = import('../types/api.js').Operations;
export type Snapshot = import('../types/api.js').Info;
export type Event = import('../types/api.js').Event;
export type Named = string | {
    name: string;
};
export type Options<Op extends keyof Operations, Own extends PropertyKey = never> = Omit<Operations[Op]['args'], Own>;
export declare class Workspace {
    #private;
    /** The directory of the workspace. */
    path: string;
    /** Use Workspace.open. @param {string} root @param {import('./transport.js').Transport} transport */
    constructor(root: string, transport: import('./transport.js').Transport);
    /** The workspace that a directory is in: main, or a fork. @param {string} [dir] */
    static open(dir?: string): Promise<Workspace>;
    /**
     * Any operation of docs/api/openapi.yaml.
     * @template {keyof Operations} Op
     * @param {Op} op @param {Operations[Op]['args']} args @param {{signal?: AbortSignal}} [options]
     * @returns {Promise<Operations[Op]['result']>}
     */
    call<Op extends keyof Operations>(op: Op, args: Operations[Op]['args'], options?: {
        signal?: AbortSignal;
    }): Promise<Operations[Op]['result']>;
    /** Takes a snapshot. @param {string} [name] @param {Options<'snapshot', 'name'>} [options] */
    snapshot(name?: string, options?: Options<'snapshot', 'name'>): Promise<import("../types/api.js").Info>;
    /** The snapshots, newest first. @param {Options<'list'>} [options] */
    list(options?: Options<'list'>): Promise<import("../types/api.js").Info[]>;
    /** The unified diff from a snapshot, by default the state that the workspace began from, to another, or to now. @param {Named} [a] @param {Named} [b] @param {Options<'diff', 'a' | 'b'>} [options] */
    diff(a?: Named, b?: Named, options?: Options<'diff', 'a' | 'b'>): Promise<string>;
    /** The paths that differ between a snapshot, by default the state that the workspace began from, and another, or now. @param {Named} [a] @param {Named} [b] @param {Options<'changes', 'a' | 'b'>} [options] */
    changes(a?: Named, b?: Named, options?: Options<'changes', 'a' | 'b'>): Promise<import("../types/api.js").Diffed>;
    /** What changed since the last look: deleted and overwritten files first, and how to undo it. @param {Options<'changed'>} [options] */
    changed(options?: Options<'changed'>): Promise<import("../types/api.js").WhatChanged>;
    /** Makes the workspace, or some paths of it, equal to a snapshot. @param {Named} to @param {Options<'restore', 'name'>} [options] */
    restore(to: Named, options?: Options<'restore', 'name'>): Promise<import("../types/api.js").RestoreResult>;
    /** Undoes the last restore or merge. @param {Options<'restore', 'name'>} [options] */
    undo(options?: Options<'restore', 'name'>): Promise<import("../types/api.js").RestoreResult>;
    /** Undoes what one actor changed. @param {string} actor @param {Options<'undo-by', 'by'>} [options] */
    undoBy(actor: string, options?: Options<'undo-by', 'by'>): Promise<import("../types/api.js").UndoneBy>;
    /**
     * A writable copy of the present state, or of a snapshot. At the end of an `await using` it
     * is deleted, and its last state stays as a snapshot.
     * @param {string} [name] @param {Options<'fork', 'name'>} [options]
     */
    fork(name?: string, options?: Options<'fork', 'name'>): Promise<Fork>;
    /** The fork with a label; if there is none, it is created. It stays. @param {string} label @param {Options<'claim', 'label'>} [options] */
    claim(label: string, options?: Options<'claim', 'label'>): Promise<Fork>;
    forks(): Promise<import("../types/api.js").ForkState[]>;
    /** A fork that exists. It stays. @param {Named} fork */
    openFork(fork: Named): Promise<Fork>;
    /**
     * The events, oldest first. With follow, they continue until the loop or the signal ends.
     * @param {Options<'events'> & {signal?: AbortSignal}} [options]
     * @returns {AsyncGenerator<Event, void, void>}
     */
    events({ signal, ...options }?: Options<'events'> & {
        signal?: AbortSignal;
    }): AsyncGenerator<Event, void, void>;
    /** Sends snapshots to a remote. @param {Named | Named[]} snapshots @param {Options<'push', 'snapshots'>} [options] */
    push(snapshots: Named | Named[], options?: Options<'push', 'snapshots'>): Promise<import("../types/api.js").Pushed[]>;
    /** Gets snapshots of a remote, by their names there or their ids. @param {string} remote @param {Named | Named[]} snapshots @param {Options<'pull', 'remote' | 'snapshots'>} [options] */
    pull(remote: string, snapshots: Named | Named[], options?: Options<'pull', 'remote' | 'snapshots'>): Promise<import("../types/api.js").Info[]>;
}
/** A fork is a workspace, too. */
export declare class Fork extends Workspace {
    #private;
    parent: Workspace;
    name: string;
    /** The snapshot it began with. */
    from: string | undefined;
    /** Of claim: resumed, snapshot or fresh. Else undefined. */
    tier: string | undefined;
    /** @param {Workspace} parent @param {string} name @param {import('./transport.js').Transport} transport @param {{tier?: string, from?: string, stays?: boolean}} made */
    constructor(parent: Workspace, name: string, transport: import('./transport.js').Transport, { tier, from, stays }: {
        tier?: string;
        from?: string;
        stays?: boolean;
    });
    /** Merges the changes into the parent. A conflict is a ConflictError, and changes nothing. @param {Options<'merge', 'fork'>} [options] */
    merge(options?: Options<'merge', 'fork'>): Promise<import("../types/api.js").PromoteResult>;
    /** Deletes the fork, and keeps its last state as a snapshot of the parent. @param {Options<'delete-fork', 'name'>} [options] */
    delete(options?: Options<'delete-fork', 'name'>): Promise<import("../types/api.js").DeletedFork>;
    /** Deletes the fork, the forks in it, and all that is only there. @param {Options<'delete-fork', 'name' | 'discard'>} [options] */
    discard(options?: Options<'delete-fork', 'name' | 'discard'>): Promise<import("../types/api.js").DeletedFork>;
    [Symbol.asyncDispose](): Promise<void>;
}
