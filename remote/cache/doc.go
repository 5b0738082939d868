// Package cache stores blocks of remote objects in a directory that all daemons of a user share.
//
// Imported by: remote, remote/handoff, remote/known.
//
//	DIR/ab/OBJECT.BLOCK   1 MiB of an object, shorter at its end
//
// Objects are immutable and named by their hash, so a block never changes and belongs to
// every remote that has the object. Blocks of an encrypted remote are ciphertext.
//
// The cache does not sync blocks, and does not check them: a power cut may leave a block of
// zeros, and another process may have changed it. The reader compares every record with its
// hash, and calls Drop for a damaged one.
//
// The directory may be removed at any time: storing a block creates it again. Blocks that cannot
// be stored are kept in memory for a short time.
package cache
