//go:build !points

package fusefs

// The functions of points.go, with which tests stop or delay a daemon, do nothing without the build
// tag points.

func beforeAnswer([]byte) {}

func beforeHandling([]byte) {}

func beforeDropping() {}
