export type Transport = {
    send: (op: string, args: object, signal?: AbortSignal) => Promise<any>;
    inside: (fork: string) => Transport;
};
/**
 * send returns what the operation does: an object, a string, bytes, or an iterable of events.
 * inside is the transport of a fork.
 * @typedef {{send: (op: string, args: object, signal?: AbortSignal) => Promise<any>, inside: (fork: string) => Transport}} Transport
 */
/** @param {import('./locate.js').Place} place @returns {Promise<Transport>} */
export declare function connect(place: import('./locate.js').Place): Promise<Transport>;
