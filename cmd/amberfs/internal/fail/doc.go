// Package fail is the error that a command ends with: one sentence for the
// person, what to do next, and the kind that decides the exit status.
//
// An error crosses the control socket as its kind, sentence and hint, so that
// the command line prints in one process exactly what the daemon found out in
// another.
package fail
