export type Place = {
    root: string;
    store: string;
    workspace: string;
};
/**
 * A workspace: where it is mounted, its store ('' if unknown), and the forks that lead to it
 * ('' for main, else as a/b).
 * @typedef {{root: string, store: string, workspace: string}} Place
 */
/** @param {string} dir @returns {Promise<Place>} */
export declare function locate(dir: string): Promise<Place>;
/**
 * The workspace of a directory, by a table as /proc/self/mountinfo; undefined if another file
 * system is mounted there.
 * @param {string} real @param {string} table @returns {Place | undefined}
 */
export declare function find(real: string, table: string): Place | undefined;
