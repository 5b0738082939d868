// Package storedir opens, locks and creates the directory of a store. It reads and writes the files
// `format` and `lock`, and the files with the name of the directory that a new store is filled from.
//
// Imported by: all of cmd, snapshot, snapshot/repair.
package storedir
