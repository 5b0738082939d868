import { FailedError } from './generated.js';
export type Place = {
    root: string;
    store: string;
    workspace: string;
};
export type Found = Place & {
    user?: number;
};
/**
 * A workspace: where it is mounted, its store ('' if unknown), and the forks that lead to it
 * ('' for main, else as a/b).
 * @typedef {{root: string, store: string, workspace: string}} Place
 */
/** @typedef {Place & {user?: number}} Found what the table of mounts has, with the user that mounted it */
/** @param {string} dir @returns {Promise<Place>} */
export declare function locate(dir: string): Promise<Place>;
/** The error for a workspace below an overlay: what is written to control files stays in the overlay. @param {string} root */
export declare const overlaid: (root: string) => FailedError;
/**
 * The workspace of a directory, by a table as /proc/self/mountinfo; undefined if another file
 * system is mounted there.
 * @param {string} real @param {string} table @param {number} [caller] @returns {Found | undefined}
 */
export declare function find(real: string, table: string, caller?: number): Found | undefined;
export type Row = {
    root: string;
    point: string;
    type: string;
    source: string;
    user: number | undefined;
};
