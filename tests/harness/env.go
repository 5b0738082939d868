package harness

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Long reports whether the exhaustive forms of the tests are asked for, which
// take hours: AMBERFS_TEST_LONG is set, as `make test-long` does. The ordinary
// forms are samples of them.
func Long() bool { return os.Getenv("AMBERFS_TEST_LONG") != "" }

// Count is how much of something a test does: what the environment variable
// called name says, or else long or short, depending on [Long].
func Count(t testing.TB, name string, short, long int) int {
	t.Helper()
	if Long() {
		short = long
	}
	return int(FromEnv(t, name, uint64(short)))
}

// FromEnv returns the number in an environment variable, such as the seed that
// a test repeats, or another when it is not set.
func FromEnv(t testing.TB, name string, otherwise uint64) uint64 {
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

// Seed returns what a random test begins with: 1, in the exhaustive form another each
// time, or what the environment variable SEED says.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if Long() {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	seed = FromEnv(t, "SEED", seed)
	t.Logf("SEED=%d", seed)
	return seed
}

// Linux reports whether the kernel has this version or a newer one, where what programs
// see depends on it.
func Linux(major, minor int) bool {
	var u unix.Utsname
	var a, b int
	if err := unix.Uname(&u); err != nil {
		panic(err)
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		panic(err)
	}
	return a > major || a == major && b >= minor
}

// Needs skips the test where a program is not installed. In `make test`, which
// installs them, a missing program is a failure.
func Needs(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		} else if os.Getenv("AMBERFS_TEST_COMPLETE") != "" {
			t.Fatalf("%s is not installed: %v", p, err)
		}
		t.Skipf("%s is not installed", p)
	}
}
