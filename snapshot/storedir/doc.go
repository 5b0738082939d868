// Package storedir opens, locks and creates the directory of a store. It reads and writes the files
// `format` and `lock`, and the file that names the directory from which a new store is filled.
//
// Imported by: all of cmd, snapshot, snapshot/repair.
package storedir
