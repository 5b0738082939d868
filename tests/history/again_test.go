package history_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestSameNameAgain: a fork or a snapshot that went by the command line, and came again
// under the same name, is the new one for a program that had opened the old one.
func TestSameNameAgain(t *testing.T) {
	m := harness.New(t)
	file, fork, snap := m.Path("file"), m.Path(".forks", "f", "file"), m.Path(".snapshots", "s", "file")
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return string(b)
	}
	for i := range 4 {
		want := fmt.Sprint("round ", i)
		must.OK(t, os.WriteFile(file, []byte(want), 0o644))
		m.Amberfs("fork", "f")
		m.Amberfs("snapshot", "s", "--no-wait")
		for range 2 {
			if got := read(fork); got != want {
				t.Errorf("the fork of %s has %s", want, got)
			}
			if got := read(snap); got != want {
				t.Errorf("the snapshot of %s has %s", want, got)
			}
		}
		m.Amberfs("fork", []string{"--discard", "--delete"}[i%2], "f")
		m.Amberfs("rm", "s")
		if i%2 == 1 {
			m.Amberfs("rm", "f") // what the fork left
		}
		for _, path := range []string{fork, snap} {
			if b, err := os.ReadFile(path); err == nil {
				t.Errorf("%s is still there: %s", path, b)
			}
		}
	}
}

// TestForkRenamedOverTheSocket: the old name of a fork is gone for the kernel, too, when
// the answer is there, another fork can have it, and the log reports it.
func TestForkRenamedOverTheSocket(t *testing.T) {
	m := harness.New(t)
	over := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.Store, "socket"))
	}
	c := http.Client{Transport: &http.Transport{DialContext: over, DisableKeepAlives: true}}
	m.Amberfs("fork", "a")
	must.OK(t, os.WriteFile(m.Path(".forks", "a", "file"), []byte("x"), 0o644))
	if _, err := os.Stat(m.Path(".forks", "b")); err == nil {
		t.Fatal("there is a fork b already")
	}
	res, err := c.Post("http://amberfs/v1/rename-fork", "application/json", strings.NewReader(`{"from":"a","to":"b"}`))
	must.OK(t, err)
	res.Body.Close()
	if _, err := os.Stat(m.Path(".forks", "a", "file")); res.StatusCode != http.StatusOK || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s, and the old name: %v", res.Status, err)
	}
	if _, err := os.Stat(m.Path(".forks", "b", "file")); err != nil {
		t.Error(err)
	}
	m.Amberfs("fork", "a")
	if _, err := os.Stat(m.Path(".forks", "a", "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new fork by the old name has the file of the old one: %v", err)
	}
	if log := m.Amberfs("log", "--json"); !strings.Contains(log, `"renamed-fork"`) {
		t.Errorf("the log has no renaming:\n%s", log)
	}
}

// TestTimesOfDirectories: a directory that only has another time has the old one
// after a restore and after a promotion, also when the daemon is killed then; and
// that takes no undo point.
func TestTimesOfDirectories(t *testing.T) {
	m := harness.New(t)
	touch := func(dir string) {
		t.Helper()
		must.OK(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o644))
		must.OK(t, os.Remove(filepath.Join(dir, "x")))
	}
	mtime := func(dir string) time.Time {
		t.Helper()
		info, err := os.Stat(dir)
		must.OK(t, err)
		return info.ModTime()
	}
	d := m.Path("d")
	must.OK(t, os.Mkdir(d, 0o755))
	m.Amberfs("snapshot", "v1")
	before := mtime(d)
	must.OK(t, os.WriteFile(filepath.Join(d, "file"), nil, 0o644))
	m.Amberfs("restore", "v1")
	touch(d)
	if mtime(d).Equal(before) {
		t.Fatal("nothing differs")
	}
	list := func() string {
		names, err := os.ReadDir(m.Path(".snapshots"))
		must.OK(t, err)
		return fmt.Sprint(names)
	}
	names := list()
	m.Amberfs("restore", "v1")
	if got := mtime(d); !got.Equal(before) {
		t.Errorf("restored, %s has %s, not %s", d, got, before)
	}
	m.Amberfs("fork", "f")
	touch(m.Path(".forks", "f", "d"))
	m.Amberfs("promote", "f")
	want := mtime(m.Path(".forks", "f", "d"))
	if got := mtime(d); !got.Equal(want) {
		t.Errorf("promoted, %s has %s, not %s", d, got, want)
	}
	if got := list(); got != names {
		t.Errorf("snapshots are %s, were %s", got, names)
	}
	m.Kill()
	m.Start()
	if got := mtime(d); !got.Equal(want) {
		t.Errorf("after a kill %s has %s, not %s", d, got, want)
	}
	m.Amberfs("restore", "undo")
	if _, err := os.Stat(filepath.Join(d, "file")); err != nil {
		t.Error("the undo point went: ", err)
	}
}
