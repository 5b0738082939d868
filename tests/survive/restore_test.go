package survive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestRestore: a restore whose daemon dies before the kernel knows of all that it changed is
// carried out, and no path shows what was there before.
func TestRestore(t *testing.T) {
	m := newMount(t)
	for _, state := range []string{"a", "b"} {
		for i := range 100 {
			must.OK(t, os.WriteFile(m.Path(fmt.Sprint("both", i)), []byte(state), 0o644))
			must.OK(t, os.WriteFile(m.Path(fmt.Sprint(state, i)), []byte(state), 0o644))
		}
		m.Amberfs("snapshot", state)
		for i := range 100 {
			must.OK(t, os.Remove(m.Path(fmt.Sprint(state, i))))
		}
	}
	differ := func(state string) error { // which the kernel has in its caches then
		for i := range 100 {
			for _, name := range []string{"both", "a", "b"} {
				b, err := os.ReadFile(m.Path(fmt.Sprint(name, i)))
				if there := name == "both" || name == state; there && (err != nil || string(b) != state) || !there && !os.IsNotExist(err) {
					return fmt.Errorf("%s%d has %q (%v), not as in %s", name, i, b, err, state)
				}
			}
		}
		return nil
	}
	journaled := func() (last time.Time) {
		files, err := filepath.Glob(filepath.Join(m.Store, "journal", "*"))
		must.OK(t, err)
		for _, file := range files {
			if st, err := os.Stat(file); err == nil && st.ModTime().After(last) {
				last = st.ModTime()
			}
		}
		return last
	}
	_ = differ("b")
	for i := range harness.Count(t, "ROUNDS", 6, 100) {
		state := []string{"a", "b"}[i%2]
		pid, before, done := m.Pid(), journaled(), make(chan error, 1)
		go func() { done <- os.Rename(m.Path(".snapshots/restore"), m.Path(".snapshots/restore@"+state)) }()
		for journaled().Equal(before) && len(done) == 0 { // it takes less than a poll
		}
		must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
		must.OK(t, <-done)
		var why error
		if !harness.Poll(func() bool { why = differ(state); return why == nil }) {
			t.Fatal(why)
		}
	}
}
