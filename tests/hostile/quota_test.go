package hostile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// forkStatus is what a fork is told of itself.
type forkStatus struct {
	Health        string
	Store         string
	PID           int
	UnsharedBytes int64 `json:"unshared_bytes"`
	UnsharedLimit int64 `json:"unshared_limit"`
}

// TestQuotaOfAFork: beyond what the policy of main allows a fork is EDQUOT, status and
// df there say why, and what is removed can be written again.
func TestQuotaOfAFork(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	must.OK(t, os.WriteFile(m.Path(".snapshots", "policy"), []byte(`{"forks":{"unshared_bytes":3000000}}`), 0o644))
	quota(t, m.Path(".forks", "f"), 3_000_000)
	must.OK(t, os.WriteFile(m.Path("c"), block, 0o644))
	var host unix.Statfs_t
	must.OK(t, unix.Statfs(m.Dir, &host))
	if host.Bavail < 1000 {
		t.Errorf("main has %+v", host)
	}
}

var block = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)

// quota fills a fork up to its limit of bytes.
func quota(t *testing.T, fork string, limit int64) {
	t.Helper()
	var err error
	n := int64(0)
	for ; err == nil && n<<20 <= limit; n++ {
		err = os.WriteFile(fmt.Sprint(fork, "/q", n), block, 0o644)
	}
	if n < 2 || !errors.Is(err, unix.EDQUOT) {
		t.Errorf("file %d of 1 MiB: %v", n, err)
	}
	var st forkStatus
	b, err := os.ReadFile(fork + "/.snapshots/status")
	must.OK(t, err)
	must.OK(t, json.Unmarshal(b, &st))
	if st.UnsharedLimit != limit || st.UnsharedBytes < limit-1<<20 || st.PID != 0 || st.Store != "" {
		t.Errorf("the fork is told %s", b)
	}
	var df unix.Statfs_t
	must.OK(t, unix.Statfs(fork, &df))
	if left := int64(df.Bavail) * df.Bsize; left > 1<<20 || df.Files != 0 {
		t.Errorf("%d bytes are left in the fork: %+v", left, df)
	}
	must.OK(t, os.Remove(fork+"/q0"))
	harness.Eventually(t, "room", func() bool { return os.WriteFile(fork+"/q0", block, 0o644) == nil })
	for i := range n {
		_ = os.Remove(fmt.Sprint(fork, "/q", i))
	}
}
