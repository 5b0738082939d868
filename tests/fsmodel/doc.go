// Package fsmodel is a filesystem in memory that says what a real one must do:
// which operations fail with which error, and what the tree is afterwards.
//
// Imported by: tests.
//
// An [Op] is one system call on one tree. [Op.Do] performs it on a directory,
// [Op.Apply] on a model; the two must agree. [Random] draws operations from a
// small world of names, so that they meet each other often and fail often.
//
// [FS.List] and [Observe] describe a model and a directory in the same words,
// for comparison. Times and places of holes are not in it: tests that need
// them compare two observations of the mount (harness.ReadTree).
package fsmodel
