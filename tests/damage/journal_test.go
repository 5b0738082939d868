package damage_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// killedStore is a store whose daemon died right after these changes, of which the
// first were synced.
func killedStore(t *testing.T) *harness.Mount {
	t.Helper()
	m := harness.New(t)
	put := func(name, content string) { must.OK(t, os.WriteFile(m.Path(name), []byte(content), 0o644)) }
	put("a", "the first")
	must.OK(t, os.Mkdir(m.Path(".snapshots", "v1"), 0o755))
	must.OK(t, os.Mkdir(m.Path("d"), 0o755))
	put("d/victim", "to be damaged")
	f, err := os.Open(m.Path("d/victim"))
	must.OK(t, err)
	must.OK(t, errors.Join(f.Sync(), f.Close()))
	put("c", "the last")
	must.OK(t, os.Mkdir(m.Path(".snapshots", "v2"), 0o755))
	m.Kill()
	return m
}

// damageJournal changes a bit where the only segment of the journal has some bytes, and returns
// the name of the segment and what it holds then.
func damageJournal(t *testing.T, m *harness.Mount, at string) (name string, b []byte) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(m.Store, "journal", "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	b, err = os.ReadFile(segments[0])
	must.OK(t, err)
	i := bytes.Index(b, []byte(at))
	if i < 0 {
		t.Fatalf("%q is not in the journal", at)
	}
	b[i] ^= 4
	must.OK(t, os.WriteFile(segments[0], b, 0o600))
	return segments[0], b
}

// TestJournalNames: verify of a store that was killed names the workspace and the
// snapshot that damage in the journal affects, and changes nothing. A repair names the
// same, and then the store is sound.
func TestJournalNames(t *testing.T) {
	m := killedStore(t)
	segment, b := damageJournal(t, m, "victim")
	code, r, out := verify(t, m.Store)
	want := []affected{{"main", "", ""}, {"main", "v2", ""}}
	if code != 7 || !slices.Equal(r.Affected, want) || len(r.Damage) != 1 {
		t.Errorf("verify ended with status %d and names %v:\n%s", code, r.Affected, out)
	}
	if after, err := os.ReadFile(segment); err != nil || !bytes.Equal(after, b) {
		t.Errorf("verify changed the journal (%v)", err)
	}
	if err := m.TryStart(); err == nil {
		t.Fatal("it mounts as if nothing were")
	} else if log := m.Log(); !strings.Contains(log, "verify --repair") {
		t.Errorf("mount does not say what to do: %s", log)
	}
	if code, r, out := verify(t, "--repair", m.Store); code != 7 || !slices.Equal(r.Affected, want) {
		t.Errorf("repair ended with status %d and names %v:\n%s", code, r.Affected, out)
	}
	if code, _, out := verify(t, m.Store); code != 0 {
		t.Errorf("verify after the repair ended with status %d:\n%s", code, out)
	}
	m.Start()
	for _, name := range []string{"a", ".snapshots/v1/a"} {
		if b, err := os.ReadFile(m.Path(name)); err != nil || string(b) != "the first" {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	m.Stop()
}

// TestJournalNamesFiles: damage in the bytes of a file is that file's. What was done after it
// is there, and the store mounts.
func TestJournalNamesFiles(t *testing.T) {
	m := killedStore(t)
	segment, b := damageJournal(t, m, "to be damaged")
	code, r, out := verify(t, m.Store)
	want := []affected{{"main", "", "d/victim"}, {"main", "v2", "d/victim"}}
	if code != 7 || !slices.Equal(r.Affected, want) || len(r.Damage) != 1 {
		t.Errorf("verify ended with status %d and names %v:\n%s", code, r.Affected, out)
	}
	if after, err := os.ReadFile(segment); err != nil || !bytes.Equal(after, b) {
		t.Errorf("verify changed the journal (%v)", err)
	}
	m.Start()
	for name, want := range map[string]string{"a": "the first", ".snapshots/v1/a": "the first", "c": "the last", ".snapshots/v2/c": "the last"} {
		if b, err := os.ReadFile(m.Path(name)); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	for _, name := range []string{"d/victim", ".snapshots/v2/d/victim"} {
		if b, err := os.ReadFile(m.Path(name)); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s holds %q, %v", name, b, err)
		}
	}
	m.Stop()
}

// TestJournalGone: a store that was killed and has lost its journal goes on from
// its last checkpoint, and repair says so of every workspace.
func TestJournalGone(t *testing.T) {
	m := killedStore(t)
	must.OK(t, os.RemoveAll(filepath.Join(m.Store, "journal")))
	for _, args := range [][]string{{m.Store}, {"--repair", m.Store}} {
		code, r, out := verify(t, args...)
		if code != 7 || !slices.Contains(r.Affected, affected{Workspace: "main"}) {
			t.Errorf("verify %v ended with status %d:\n%s", args, code, out)
		}
	}
	m.Start()
	if entries, err := os.ReadDir(m.Path()); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	m.Stop()
}
