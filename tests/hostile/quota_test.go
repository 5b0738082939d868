package hostile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
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
	must(t, os.Mkdir(m.Path(".forks", "f"), 0o755))
	must(t, os.WriteFile(m.Path(".snapshots", "policy"), []byte(`{"forks":{"unshared_bytes":3000000}}`), 0o644))
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	fork := m.Path(".forks", "f")
	must(t, os.WriteFile(fork+"/a", block, 0o644))
	must(t, os.WriteFile(fork+"/b", block, 0o644))
	if err := os.WriteFile(fork+"/c", block, 0o644); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("beyond the limit: %v", err)
	}
	must(t, os.WriteFile(m.Path("c"), block, 0o644))
	var st forkStatus
	b, err := os.ReadFile(fork + "/.snapshots/status")
	must(t, err)
	must(t, json.Unmarshal(b, &st))
	if st.UnsharedLimit != 3_000_000 || st.UnsharedBytes < 2<<20 || st.PID != 0 || st.Store != "" {
		t.Errorf("the fork is told %s", b)
	}
	var df, host unix.Statfs_t
	must(t, unix.Statfs(fork, &df))
	must(t, unix.Statfs(m.Dir, &host))
	if left := int64(df.Bavail) * df.Bsize; left > 3_000_000-2<<20 || df.Files != 0 || host.Bavail < 1000 {
		t.Errorf("%d bytes are left in the fork: %+v", left, df)
	}
	must(t, os.Remove(fork+"/a"))
	harness.Eventually(t, "room", func() bool { return os.WriteFile(fork+"/c", block, 0o644) == nil })
}
