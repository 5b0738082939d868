/** An error of an operation. Its class follows from kind. */
export declare class AmberfsError extends Error {
    kind: import("../types/api.js").ErrorKind;
    /** What to do next, or ''. */
    hint: string;
    /** What the operation returns all the same: conflicts, damage. */
    result: unknown;
    /** @param {{error: string, kind?: string, hint?: string, result?: unknown}} answer */
    constructor(answer: {
        error: string;
        kind?: string;
        hint?: string;
        result?: unknown;
    });
}
export declare class FailedError extends AmberfsError {
}
export declare class UsageError extends AmberfsError {
}
export declare class NotFoundError extends AmberfsError {
}
export declare class ExistsError extends AmberfsError {
}
export declare class BusyError extends AmberfsError {
}
export declare class NoSpaceError extends AmberfsError {
}
export declare class DamageError extends AmberfsError {
}
export declare class ConflictError extends AmberfsError {
}
export declare class DeniedError extends AmberfsError {
}
/** The class of each kind. @type {Record<string, typeof AmberfsError>} */
export declare const errors: Record<string, typeof AmberfsError>;
/** The operations that return a stream. @type {Record<string, 'text' | 'bytes' | 'events' | undefined>} */
export declare const streams: Record<string, 'text' | 'bytes' | 'events' | undefined>;
