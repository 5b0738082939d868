// Package vfs is the interface of the store to the disk. It is small, so that tests can replace the
// disk.
//
// Root is a directory of the real disk that another party may have created. OS is the whole disk.
// tests/vfstest has disks that fail and lose power.
//
// # Durability
//
// The store expects the guarantees of a strict POSIX filesystem, and no more. File.Sync makes the bytes
// and the size of one file durable, but not its name: a new, renamed or removed name is durable after
// SyncDir on its directory. After a power cut, changes that were not synced may exist completely, in
// part or not at all, in any order. A write within one 512-byte sector exists completely or not at all.
//
// Punch frees space without changing the size. Allocate reserves space, so that a later write to it
// does not fail because the disk is full.
package vfs
