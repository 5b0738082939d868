// Package byfiles answers requests through the control files of a mount, for
// commands that run where the store's socket cannot be reached: in a sandbox
// that has nothing but the workspace, or as another user than the one who
// mounted it. It can do what the files of .snapshots and .forks can; for the
// rest it returns ErrCannot.
package byfiles
