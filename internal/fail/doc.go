// Package fail is the error that a command ends with: one sentence for the
// person, what to do next, and the kind, which decides exit status, errno and
// HTTP status.
//
// An error crosses a socket, a control file or a pipe as its kind, sentence and
// hint, so that the command line prints in one process exactly what the daemon
// found out in another.
package fail
