// Package hostdir reads directories of the host, and applies the differences between two states to them.
//
// Imported by: all of cmd, gitbridge, all of service.
//
// # Reading
//
// [Read] feeds a directory to a sink. [ReadChanges] feeds only the entries that differ from a state, which was
// read from the directory before. No symbolic link is followed.
//
// # Writing
//
// [Apply] takes two states of a workspace and a directory that had the first of them. A planner (plan*.go)
// reads the directory and decides the action for each path. It changes nothing. A writer (write*.go)
// carries the actions out. Its promise, and the states of a step, are at the type step. Both use the directory through
// a host (host*.go), which opens no path outside of it.
//
// A kind of file is read in hostTree.data and dirReader.open, decided in planner.planStep, and made in
// writer.write.
//
// This package has no code for git. It reads and changes the repositories of a directory through the
// interface [Git].
package hostdir
