// Package hostdir reads directories of the host and brings them what differs between two states.
//
// # Reading
//
// [Read] feeds a directory to a sink, and [ReadChanges] what differs from a state that was read of it
// before. No symbolic link is followed.
//
// # Writing
//
// [Apply] takes two states of a workspace and a directory that had the first of them. A planner (plan*.go)
// looks at the directory and decides what is done at each path; it changes nothing. A writer (write*.go)
// does it. Its promise, and the states of a step, are at the type step. Both reach the directory through
// a host (host*.go), which stays beneath it.
//
// Of git this package knows the interface [Git], through which the repositories of a directory are read
// and changed.
package hostdir
