package harness

import (
	"os"
	"strconv"
	"testing"
)

// FromEnv returns the number in an environment variable, or another when it is
// not set: how long a test works, or the seed that it repeats.
func FromEnv(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, s, err)
	}
	return n
}
