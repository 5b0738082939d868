// Package vfs is the disk as the store sees it: a small interface, so that
// tests can take the disk away.
//
// Beneath is the real disk below one directory that another party may have made, OS all of
// it. tests/vfstest has disks that fail and lose power.
//
// # What is promised, and by whom
//
// The model is that of a strict POSIX filesystem. File.Sync makes the bytes and
// the size of one file durable, but not its name: a new, renamed or removed name
// is durable after SyncDir on its directory. Anything not synced may survive a
// power cut wholly, in part, or not at all, in any order; what is written within
// one 512-byte sector survives or perishes as one.
//
// Punch gives space back without changing the size, Allocate takes space ahead
// so that a later write into it cannot meet a full disk.
package vfs
