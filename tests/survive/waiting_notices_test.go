package survive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestSuccessorFailsWhileNoticesWait: the notices of a restore wait in a daemon that is killed, in the next
// one, which fails, and in the one after that. When the restore returns, programs read what was restored, and
// what they write is kept. The short form has a daemon fail once at each point. The long form restores so many
// names that they are dropped together where that is possible.
func TestSuccessorFailsWhileNoticesWait(t *testing.T) {
	files := 60
	if harness.LongTests() {
		files = 2000
	}
	p := newPointed(t)
	in := func(state string, i int) string { return p.Path("d", fmt.Sprint(state, i)) }
	states := []string{"a", "b"}
	must.OK(t, os.Mkdir(p.Path("d"), 0o755))
	for _, state := range states {
		for i := range files {
			must.OK(t, os.WriteFile(in("both", i), []byte(state), 0o644))
			must.OK(t, os.WriteFile(in(state, i), []byte(state), 0o644))
		}
		must.OK(t, os.Mkdir(p.Path("d", "dir"+state), 0o755))
		must.OK(t, os.WriteFile(p.Path("d", "dir"+state, "f"), []byte(state), 0o644))
		must.OK(t, os.Mkdir(p.Path(".snapshots", state), 0o755))

		for i := range files {
			must.OK(t, os.Remove(in(state, i)))
		}
		must.OK(t, os.RemoveAll(p.Path("d", "dir"+state)))
	}
	p.Amberfs("restore", "b", "-q")

	// is fails for each name that does not have what a state has. The kernel has all of them in its caches then.
	is := func(what, state string) {
		t.Helper()
		for _, name := range []string{"both", "a", "b"} {
			for i := range files {
				b, err := os.ReadFile(in(name, i))
				if there := name == "both" || name == state; there && (err != nil || string(b) != state) || !there && !os.IsNotExist(err) {
					t.Fatalf("%s: %s%d has %q (%v), not as in %s", what, name, i, b, err, state)
				}
			}
		}
		for _, name := range states {
			b, err := os.ReadFile(p.Path("d", "dir"+name, "f"))
			if name == state && string(b) != state || name != state && !os.IsNotExist(err) {
				t.Fatalf("%s: dir%s/f has %q (%v), not as in %s", what, name, b, err, state)
			}
		}
	}

	n := 0
	for i, point := range points {
		for j, how := range []string{"fail", "exit", "kill", "disk"} {
			if !harness.LongTests() && i != j {
				continue
			}
			what := fmt.Sprintf("%s at %s", how, point)
			state, other := states[n%2], states[(n+1)%2]
			n++
			is(what, other)
			p.arm(t, "notices", "")
			restored := make(chan error, 1)
			go func() { restored <- os.Rename(p.Path(".snapshots/restore"), p.Path(".snapshots/restore@"+state)) }()
			wait := func() int {
				t.Helper()
				harness.Eventually(t, what+": notices wait", func() bool { return p.armed("waiting") })
				return p.Pid()
			}
			pid := wait()
			p.arm(t, point, how)
			must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
			harness.Eventually(t, what+": a daemon fails", func() bool { return !p.armed(point) })

			must.OK(t, os.Remove(filepath.Join(p.points, "waiting")))
			wait()
			if len(restored) > 0 {
				t.Errorf("%s: the restore returned before its notices were written: %v", what, <-restored)
			}
			must.OK(t, os.Remove(filepath.Join(p.points, "notices")))
			if err := <-restored; err != nil {
				t.Errorf("%s: %v", what, err)
			}
			is(what, state)

			for i := range files {
				must.OK(t, os.WriteFile(in("both", i), []byte("mine"), 0o644))
			}
			must.OK(t, os.Mkdir(p.Path(".snapshots/mine"), 0o755))
			for i := range files {
				if b, err := os.ReadFile(p.Path(".snapshots/mine/d", fmt.Sprint("both", i))); err != nil || string(b) != "mine" {
					t.Fatalf("%s: both%d has %q in a snapshot after a write (%v)", what, i, b, err)
				}
			}
			must.OK(t, os.Remove(p.Path(".snapshots/mine")))
			p.Amberfs("restore", state, "-q")
		}
	}
}
