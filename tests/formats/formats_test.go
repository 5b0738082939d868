// Package formats opens the store, and pulls from the remotes, of every release, for ever.
//
//	go test ./tests/formats -update=0.2.0
//
// makes those of a release with this version, as root. testdata/before.tar.gz was made the
// same way by the program of commit a8225a1, whose stores are refused.
package formats

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

var update = flag.String("update", "", "make the store and the remotes of this `RELEASE` anew")

const (
	identity  = "AMBERFS_AGE_IDENTITY"
	recipient = "age14jdvdag7lgunysjwrxdka8mpgm2ts9hnky9rf5qca4hvhd2jafaqw0fqh3"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m))
}

// pushed are the snapshots that the remotes have.
var pushed = []string{"first", "merged", "both"}

// releases are the archives of releases. Each has a store, two remotes, and what the states in
// the store are.
func releases(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/[0-9]*.tar.gz")
	must.OK(t, err)
	if len(all) == 0 {
		t.Fatal("there is no release")
	}
	return all
}

// makeRelease makes the archive of a release. The daemon is killed while a file without a name
// is open.
func makeRelease(t *testing.T) {
	t.Helper()
	key, err := filepath.Abs("testdata/key.txt")
	must.OK(t, err)
	t.Setenv(identity, key)
	t.Setenv("RECIPIENT", recipient)
	dir := t.TempDir()
	m := harness.NewUnmounted(t, filepath.Join(dir, "store"), "-o", "acl")
	m.Start()
	must.OK(t, os.Mkdir(filepath.Join(dir, "remote"), 0o755))
	must.OK(t, os.Mkdir(filepath.Join(dir, "encrypted"), 0o755))
	script(t, m, "fill", filepath.Join(dir, "remote"), filepath.Join(dir, "encrypted"))
	m.Stop()
	m.Start()
	script(t, m, "journal")
	orphan, err := os.Create(m.Path("orphan"))
	must.OK(t, err)
	_, err = orphan.WriteString("no name")
	must.OK(t, err)
	must.OK(t, os.Remove(m.Path("orphan")))
	must.OK(t, orphan.Sync())
	m.Kill()
	orphan.Close()
	// The index is made again, and the rest is not of the store's format.
	for _, name := range []string{"index", "socket", "lock", "amberfs.log", "packs/reserve"} {
		must.OK(t, os.RemoveAll(filepath.Join(dir, "store", name)))
	}
	archive, err := filepath.Abs("testdata/" + *update + ".tar.gz")
	must.OK(t, err)
	tar(t, "-C", dir, "-czSf", archive, "store", "remote", "encrypted")
	s := open(t, filepath.Join(dir, "store"))
	must.OK(t, os.WriteFile(filepath.Join(dir, "states"), []byte(states(t, s)), 0o644))
	must.OK(t, s.Close())
	whole := t.TempDir()
	tar(t, "-C", whole, "-xzf", archive)
	must.OK(t, os.Rename(filepath.Join(dir, "states"), filepath.Join(whole, "states")))
	tar(t, "-C", whole, "-czSf", archive, "store", "remote", "encrypted", "states")
}

func script(t *testing.T, m *harness.Mount, name string, args ...string) {
	t.Helper()
	path, err := filepath.Abs("testdata/" + name)
	must.OK(t, err)
	cmd := exec.Command(path, append([]string{harness.Binary(t)}, args...)...)
	cmd.Dir = m.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// TestReleases: every release that CHANGELOG has is here.
func TestReleases(t *testing.T) {
	b, err := os.ReadFile("../../CHANGELOG.md")
	must.OK(t, err)
	found := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)`).FindAllStringSubmatch(string(b), -1)
	if len(found) == 0 {
		t.Fatal("CHANGELOG.md has no release")
	}
	for _, m := range found {
		if _, err := os.Stat("testdata/" + m[1] + ".tar.gz"); err != nil {
			t.Errorf("%v; make it with -update=%s", err, m[1])
		}
	}
}

// TestStores opens, verifies, restores and writes the store of each release.
func TestStores(t *testing.T) {
	if *update != "" {
		makeRelease(t)
	}
	for _, archive := range releases(t) {
		t.Run(filepath.Base(archive), func(t *testing.T) {
			dir := unpack(t, archive)
			want := read(t, filepath.Join(dir, "states"))
			s := open(t, filepath.Join(dir, "store"))
			compare(t, want, states(t, s))
			verify(t, s)

			_, err := s.Main().Restore(t.Context(), snapshot.RestoreOptions{Name: "first"})
			must.OK(t, err)
			now, first := listing(t, s, s.Main(), ""), listing(t, s, s.Main(), "first")
			compare(t, first, now)
			a, err := s.Forest().Create(s.Main().Root(), "new", live.NewNode{Mode: unix.S_IFREG | 0o644})
			must.OK(t, err)
			_, err = s.Forest().Write(a.ID, []byte("new\n"), 0, false)
			must.OK(t, err)
			_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "here"})
			must.OK(t, err)
			must.OK(t, s.Checkpoint(t.Context()))
			_, err = s.GC(t.Context(), nil)
			must.OK(t, err)
			must.OK(t, s.Close())

			s = open(t, filepath.Join(dir, "store"))
			verify(t, s)
			if got := listing(t, s, s.Main(), "here"); got != listing(t, s, s.Main(), "") || got == first {
				t.Error("what was written is not there again")
			}
			compare(t, section(want, "main/second"), listing(t, s, s.Main(), "second"))
			must.OK(t, s.Close())
		})
	}
}

// TestRemotes pulls from what each release has pushed to, and what commit a8225a1 has, and
// pushes to it.
func TestRemotes(t *testing.T) {
	key, err := filepath.Abs("testdata/key.txt")
	must.OK(t, err)
	t.Setenv(identity, key)
	all := releases(t)
	want := read(t, filepath.Join(unpack(t, all[0]), "states"))
	for _, archive := range append(all, "testdata/before.tar.gz") {
		dir := unpack(t, archive)
		for _, remote := range []string{"remote", "encrypted"} {
			t.Run(filepath.Base(archive)+"/"+remote, func(t *testing.T) {
				m := harness.New(t)
				m.Amberfs("remote", "add", "r", "file://"+filepath.Join(dir, remote))
				m.Amberfs("remote", "verify", "r", "--deep")
				m.Amberfs(append([]string{"pull", "r"}, pushed...)...)
				must.OK(t, os.WriteFile(m.Path("new"), []byte("new\n"), 0o644))
				m.Amberfs("snapshot", "new")
				m.Amberfs("push", "r", "new")
				m.Amberfs("remote", "verify", "r", "--deep")
				m.Stop()
				s := open(t, m.Store)
				defer s.Close()
				for _, name := range pushed {
					compare(t, section(want, "main/"+name), listing(t, s, s.Main(), name))
				}
			})
		}
	}
}

// TestUnknownFormatIsRefused: the message says how an older store's snapshots come over.
func TestUnknownFormatIsRefused(t *testing.T) {
	store := filepath.Join(unpack(t, "testdata/before.tar.gz"), "store")
	for _, c := range [][2]string{
		{"amberfs store 3", "`amberfs push NAME SNAPSHOT...`; then pull them with this version"},
		{"amberfs store 1", "; mount it with the version of amberfs that created it, and copy what you need"},
		{"amberfs store 99", "; use the version of amberfs that created it"},
	} {
		if c[0] != "amberfs store 3" { // which it has
			must.OK(t, os.WriteFile(filepath.Join(store, "format"), []byte(c[0]+"\n"), 0o600))
		}
		before := harness.ReadTree(t, store)
		_, err := snapshot.Open(store, snapshot.Options{})
		if err == nil || !strings.Contains(err.Error(), c[0]) || !strings.HasSuffix(err.Error(), c[1]) {
			t.Fatalf("got %v", err)
		}
		after := harness.ReadTree(t, store)
		for _, tree := range []harness.Tree{before, after} {
			delete(tree, "lock")
		}
		harness.CheckSameTree(t, "a refused store was touched", before, after)
	}
}

func open(t *testing.T, dir string) *snapshot.Store {
	t.Helper()
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must.OK(t, err)
	return s
}

func verify(t *testing.T, s *snapshot.Store) {
	t.Helper()
	r, err := s.Verify(t.Context(), nil)
	must.OK(t, err)
	if !r.OK() || r.LostChanges > 0 {
		t.Errorf("the store is damaged: %+v", r)
	}
}

// states lists all states of a store. Each has a heading.
func states(t *testing.T, s *snapshot.Store) string {
	t.Helper()
	var b strings.Builder
	side, err := s.Main().Forks().Named("side")
	must.OK(t, err)
	for _, w := range []*snapshot.Workspace{s.Main(), side} {
		fmt.Fprintf(&b, "== %s/\n%s", w.Name(), listing(t, s, w, ""))
		for _, i := range w.List() {
			fmt.Fprintf(&b, "== %s/%s\n%s", w.Name(), i.Name, listing(t, s, w, i.Name))
		}
	}
	return b.String()
}

// section is the part of states below a heading.
func section(all, heading string) string {
	_, rest, _ := strings.Cut(all, "== "+heading+"\n")
	part, _, _ := strings.Cut(rest, "== ")
	return part
}

// listing has a line for each path of a state: the present one's for "".
func listing(t *testing.T, s *snapshot.Store, w *snapshot.Workspace, name string) string {
	t.Helper()
	st, err := w.State()
	if name != "" {
		st, _, err = w.HoldState(name)
	}
	must.OK(t, err)
	var b strings.Builder
	must.OK(t, st.Walk(context.Background(), s.Source(), tree.WalkOptions{}, func(path *tree.Path, n *tree.Inode) error {
		fmt.Fprintf(&b, "%q %o %d:%d nlink=%d rdev=%d target=%q", path.String(), n.Mode, n.UID, n.GID, n.Nlink, n.Rdev, n.Target)
		for _, x := range n.Xattrs {
			fmt.Fprintf(&b, " %s=%q", x.Name, x.Value)
		}
		if n.Mode&unix.S_IFMT == unix.S_IFREG {
			text := make([]byte, n.Size())
			if _, err := n.Content.ReadAt(s.Source().Files, text, 0); err != nil && err != io.EOF {
				return err
			}
			fmt.Fprintf(&b, " size=%d mtime=%d sha256=%x", n.Size(), n.Mtime, sha256.Sum256(text))
		}
		b.WriteString("\n")
		return nil
	}))
	return b.String()
}

// compare shows the lines that differ.
func compare(t *testing.T, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			t.Fatalf("line %d of %d and %d:\n%s\n%s", i+1, len(w), len(g), strings.Join(w[min(i, len(w)):min(i+3, len(w))], "\n"), strings.Join(g[min(i, len(g)):min(i+3, len(g))], "\n"))
		}
	}
}

func unpack(t *testing.T, archive string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	tar(t, "-C", dir, "--no-same-owner", "-xzf", archive)
	return dir
}

func tar(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("tar", args...).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, bytes.TrimSpace(out))
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	must.OK(t, err)
	return string(b)
}
