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

// LongTests reports whether tests run in their exhaustive form, which takes hours. `make test-long` sets
// AMBERFS_TEST_LONG for this. The ordinary form of a test is a sample of its exhaustive form.
func LongTests() bool { return os.Getenv("AMBERFS_TEST_LONG") != "" }

// Count returns a number for a test, such as its number of repetitions: the value of the environment variable name or,
// if it is not set, long or short, depending on [LongTests].
func Count(t testing.TB, name string, short, long int) int {
	t.Helper()
	if LongTests() {
		short = long
	}
	return int(NumberFromEnv(t, name, uint64(short)))
}

// NumberFromEnv returns the number in an environment variable, such as a seed with which a test is repeated. It
// returns def if the variable is not set.
func NumberFromEnv(t testing.TB, name string, def uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, s, err)
	}
	return n
}

// RandomSeed returns the seed for the random numbers of a test: the value of the environment variable SEED or, if it is
// not set, 1, or in the exhaustive form another seed each time.
func RandomSeed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if LongTests() {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	seed = NumberFromEnv(t, "SEED", seed)
	t.Logf("SEED=%d", seed)
	return seed
}

// LinuxAtLeast reports whether the kernel has this version or a newer one.
func LinuxAtLeast(major, minor int) bool {
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

// SkipWithout skips the test if one of the programs is not installed. In `make test`, which installs the programs, it
// fails the test instead.
func SkipWithout(t testing.TB, programs ...string) {
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
