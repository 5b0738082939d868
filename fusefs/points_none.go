//go:build !points

package fusefs

// beforeAnswer is where a test has a daemon end that has carried a request out.
func beforeAnswer([]byte) {}

// beforeHandling is where a test has each daemon end that carries out a certain request.
func beforeHandling([]byte) {}

// beforeDropping is where a test has the notices of an edit wait.
func beforeDropping() {}
