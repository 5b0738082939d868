// Package hostdir reads directories of the host, and applies the differences between two states to them.
//
// Imported by: all of cmd, gitbridge, all of service.
//
// # Reading
//
// [Read] feeds a directory to a sink. [ReadChanges] feeds only the entries that differ from a state that was read
// from the directory earlier. No symbolic link is followed.
//
// # Writing
//
// [Apply] takes a base and a new state of a workspace, and a directory that was equal to the base. A planner
// (plan*.go) reads the directory and decides the action for each path. It changes nothing. A writer (write*.go)
// carries the actions out. The comment of the type step has the promises of the writer. The planner and the writer
// use the directory through a host (host*.go), which opens no path outside of the directory.
//
// Code that depends on the kind of a file: hostTree.setContents and dirReader.openEntry read it, planner.planStep
// decides its action, and writer.createFile creates it.
//
// This package has no code for git. It reads and changes the repositories of a directory through the
// interface [Git].
package hostdir
