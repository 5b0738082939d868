// Package vfs is the disk as the store sees it: a small interface, so that
// tests can take the disk away.
//
// OS is the real thing. Beneath is the same for a directory that somebody else may
// have made: what lies in there cannot lead anywhere else. Mem keeps files in memory and knows, for each file and
// each directory, what has been synced and what has not: Mem.CrashClone returns
// what a power cut would leave behind. FailAt makes the n-th operation fail, so
// that a test can walk through every place where the disk may refuse.
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
