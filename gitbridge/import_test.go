package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"golang.org/x/sys/unix"
)

func TestReadDirCarriesEverything(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("device nodes need root")
	}
	root := t.TempDir()
	s := tarTree()
	for p, n := range s {
		if n.mtime != 0 { // set below
			n.mtime = 0
			s[p] = n
		}
	}
	delete(s, "x")
	s["s"] = node{mode: unix.S_IFSOCK | 0o755}
	s.write(t, root)
	must.OK(t, os.WriteFile(filepath.Join(root, "x"), []byte("attr"), 0o644))
	must.OK(t, unix.Setxattr(filepath.Join(root, "x"), "user.a", []byte("1\x00"), 0))
	must.OK(t, unix.Setxattr(filepath.Join(root, "x"), "user.big", make([]byte, 2000), 0))
	must.OK(t, os.Chmod(filepath.Join(root, "d/dir"), 0o777|os.ModeSticky))
	must.OK(t, os.Chmod(filepath.Join(root, "suid"), 0o755|os.ModeSetuid|os.ModeSetgid))
	must.OK(t, os.Lchown(filepath.Join(root, "l"), 11, 12))
	for p, n := range s {
		must.OK(t, unix.Lutimes(filepath.Join(root, p), []unix.Timeval{{}, {Sec: someTime / 1e9}}))
		if n.mode&unix.S_IFMT == unix.S_IFREG && len(n.data) > mega/2 {
			punch(t, filepath.Join(root, p), n.data)
		}
	}
	s["x"] = node{mode: unix.S_IFREG | 0o644, data: "attr", xattrs: []tree.Xattr{{Name: "user.a", Value: []byte("1\x00")}, {Name: "user.big", Value: make([]byte, 2000)}}}
	sink := newMapSink(t)
	must.OK(t, ReadDir(context.Background(), root, sink.add, DirOptions{}))
	expect := want(s)
	for p, n := range sink.files {
		w := expect[p]
		if n.mode&unix.S_IFMT == unix.S_IFDIR || p == "x" || len(n.data) > mega/2 {
			w.mtime = n.mtime
		}
		if p == "." {
			w.mode = n.mode
		}
		expect[p] = w
	}
	sameSpec(t, sink.files, expect)
	if m := sink.meta["l"]; m.UID != 11 || m.GID != 12 {
		t.Errorf("the link belongs to %d:%d", m.UID, m.GID)
	}
}

// punch makes a file with holes where its data is zero.
func punch(t *testing.T, name, data string) {
	t.Helper()
	f, err := os.Create(name)
	must.OK(t, err)
	defer f.Close()
	must.OK(t, f.Truncate(int64(len(data))))
	const page = 64 << 10
	for off := 0; off < len(data); off += page {
		if part := data[off:min(off+page, len(data))]; strings.Trim(part, "\x00") != "" {
			_, err := f.WriteAt([]byte(part), int64(off))
			must.OK(t, err)
		}
	}
}

func TestReadDirExcludesAndSkips(t *testing.T) {
	root := t.TempDir()
	spec{"a": file("1"), "store/x": file("2"), "d/mount/y": file("3"), "secret": {mode: unix.S_IFREG}, "locked/z": file("4")}.write(t, root)
	must.OK(t, os.Chmod(filepath.Join(root, "locked"), 0))
	defer os.Chmod(filepath.Join(root, "locked"), 0o755)
	read := func(o DirOptions) (string, error) {
		sink := newMapSink(t)
		o.Exclude = []string{filepath.Join(root, "store"), filepath.Join(root, "d/mount"), filepath.Join(root, "nowhere")}
		err := ReadDir(context.Background(), root, sink.add, o)
		return strings.Join(sorted(sink.plain()), " "), err
	}
	if os.Getuid() == 0 {
		if got, err := read(DirOptions{}); err != nil || got != "a locked/z secret" {
			t.Errorf("got %q, %v", got, err)
		}
		return
	}
	if _, err := read(DirOptions{}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("error %v, want a refusal", err)
	}
	var skipped []string
	got, err := read(DirOptions{ImportOptions: ImportOptions{Skip: func(p string, err error) { skipped = append(skipped, p) }}})
	if err != nil || got != "a" || strings.Join(skipped, " ") != "locked secret" {
		t.Errorf("got %q, skipped %q, %v", got, skipped, err)
	}
}

// The same as an ordinary user, when the tests run as root.
func TestReadDirAsAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the other test does it")
	}
	exe, err := os.Executable()
	must.OK(t, err)
	// The test binary's own directory is closed to others.
	open := t.TempDir()
	must.OK(t, os.Chmod(filepath.Dir(open), 0o755))
	must.OK(t, os.Chmod(open, 0o777))
	data, err := os.ReadFile(exe)
	must.OK(t, err)
	copied := filepath.Join(open, "test")
	must.OK(t, os.WriteFile(copied, data, 0o755))
	cmd := exec.Command(copied, "-test.run=^TestReadDirExcludesAndSkips$")
	cmd.Dir = open
	cmd.Env = append(os.Environ(), "TMPDIR="+open)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestReadDirFailures(t *testing.T) {
	if err := ReadDir(context.Background(), filepath.Join(t.TempDir(), "none"), discard, DirOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ReadDir(ctx, t.TempDir(), discard, DirOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestGitRoundTrip(t *testing.T) {
	isolate(t)
	for _, format := range []string{"sha1", "sha256"} {
		repo := bareRepo(t, "--object-format="+format)
		s := spec{"a": file("1\r\n"), "b/c": exe("2"), "b/l": link("../a\n"), "e": file(""), "\xff\n": file("3"), ".gitattributes": file("*.x text\n"),
			"big": file(strings.Repeat("0123456789", mega/5)), strings.Repeat(strings.Repeat("d", 99)+"/", 39) + "f": file("deep")}
		m := newMemory()
		first := export(t, m, m.state(t, s), repo, nil)
		for _, rev := range []string{"refs/sandbox/snapshots/v1", first.Commit, first.Tree, "refs/sandbox/snapshots/v1^{tree}", first.Commit[:12]} {
			sink := newMapSink(t)
			_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: rev}, sink.add, ImportOptions{})
			must.OK(t, err)
			if got := sink.plain(); !reflect.DeepEqual(got, s) {
				t.Errorf("%s came back as %v", rev, sorted(got))
			}
			if got := sink.meta["b/c"].Mtime; rev == first.Commit && got != testInfo.Time.Truncate(time.Second).UnixNano() {
				t.Errorf("%s: mtime %d", rev, got)
			}
			again := export(t, m, m.state(t, sink.plain()), repo, func(o *ExportOptions) { o.Info.Name = "again" })
			if again.Tree != first.Tree {
				t.Errorf("%s: tree %s, want %s", rev, again.Tree, first.Tree)
			}
		}
		sink := newMapSink(t)
		_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: first.Commit + ":b"}, sink.add, ImportOptions{Umask: 0o027, Owner: &Owner{5, 6}})
		must.OK(t, err)
		if got := fmt.Sprint(sorted(sink.plain())); got != "[c l]" {
			t.Errorf("the directory has %s", got)
		}
		if m := sink.meta["c"]; m.Mode != unix.S_IFREG|0o750 || m.UID != 5 || m.GID != 6 || m.Mtime != 0 {
			t.Errorf("a file is %+v", m)
		}
	}
}

// sourceRepo has odd files, attributes and a submodule.
func sourceRepo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	must.OK(t, os.Mkdir(dir, 0o755))
	git(t, dir, "init", "-q", "--object-format=sha1")
	spec{"a": file("1\n"), "d/b": exe("2\n"), "d/l": link("../a"), "e": file(""), "n\nl": file("3\n"), "crlf.txt": file("x\ny\n"), "id.c": file("$Id$\n"),
		"u.utf16": file("h\x00i\x00\n\x00"), ".gitattributes": file("*.txt text eol=crlf\n*.c ident\n*.utf16 working-tree-encoding=UTF-16LE\n")}.write(t, dir)
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "one")
	git(t, dir, "submodule", "--quiet", "add", dir, "sub")
	git(t, dir, "rm", "-q", "e")
	git(t, dir, "commit", "-qm", "two")
	return dir
}

func TestSubmodulesComeBack(t *testing.T) {
	isolate(t)
	source := sourceRepo(t)
	sink := newMapSink(t)
	var told []string
	_, err := ReadGit(context.Background(), GitSource{Repo: source, Rev: "HEAD"}, sink.add, ImportOptions{
		Umask: 0o022, Skip: func(p string, _ error) { told = append(told, p) }})
	must.OK(t, err)
	if fmt.Sprint(told) != "[sub]" {
		t.Errorf("told of %v", told)
	}
	got := sink.files
	delete(got, ".")
	repo := bareRepo(t)
	m := newMemory()
	res := export(t, m, m.state(t, got), repo, nil)
	if want := git(t, source, "rev-parse", "HEAD^{tree}"); res.Tree != want {
		t.Errorf("tree %s, want %s", res.Tree, want)
	}
	// git add would stop at this file: what git stored is not in the encoding
	// of the working tree.
	if len(res.Reduced) != 1 || res.Reduced[0].Path != "u.utf16" {
		t.Errorf("reduced %v", res.Reduced)
	}
	delete(got, "u.utf16")
	work := filepath.Join(t.TempDir(), "work")
	got.write(t, work)
	res = export(t, m, m.state(t, got), repo, nil)
	if want := addAll(t, repo, work, false); res.Tree != want {
		t.Errorf("tree %s, git add makes %s", res.Tree, want)
	}
	if want := git(t, source, "rev-parse", "HEAD:sub"); git(t, repo, "rev-parse", res.Tree+":sub") != want {
		t.Errorf("the submodule is not at %s", want)
	}
}

func TestReadGitRefusals(t *testing.T) {
	isolate(t)
	repo := bareRepo(t)
	blob := hashObject(t, repo, "blob", []byte("x"))
	id := make([]byte, 20)
	fmt.Sscanf(blob, "%x", &id)
	entry := func(mode, name string) string { return mode + " " + name + "\x00" + string(id) }
	treeOf := func(entries ...string) string { return hashObject(t, repo, "tree", []byte(strings.Join(entries, ""))) }
	forged := map[string]string{
		"upwards":       treeOf(entry("100644", "..")),
		"dot":           treeOf(entry("100644", ".")),
		"git directory": treeOf(entry("100644", ".git")),
		"slash":         treeOf(entry("100644", "a/../../x")),
		"absolute":      treeOf(entry("100644", "/etc")),
	}
	for name, id := range forged {
		sink := newMapSink(t)
		_, err := ReadGit(context.Background(), GitSource{Repo: repo, Rev: id}, sink.add, ImportOptions{})
		if !errors.Is(err, ErrHostile) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	missing := treeOf("100644 f\x00" + strings.Repeat("\x01", 20))
	for name, c := range map[string]struct {
		from GitSource
		want error
	}{
		"no revision":    {GitSource{Repo: repo, Rev: "nowhere"}, ErrNoRevision},
		"exclusion":      {GitSource{Repo: repo, Rev: "^" + blob}, ErrNoRevision},
		"option":         {GitSource{Repo: repo, Rev: "--all"}, ErrNoRevision},
		"blob":           {GitSource{Repo: repo, Rev: blob}, ErrNoRevision},
		"no repository":  {GitSource{Repo: t.TempDir(), Rev: "HEAD"}, ErrNotRepository},
		"missing object": {GitSource{Repo: repo, Rev: missing}, nil},
	} {
		_, err := ReadGit(context.Background(), c.from, discard, ImportOptions{})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		t.Log(err)
	}
}

// hashObject writes an object however odd it is.
func hashObject(t *testing.T, repo, kind string, data []byte) string {
	t.Helper()
	out, err := run(context.Background(), repo, nil, strings.NewReader(string(data)), "hash-object", "-w", "--stdin", "--literally", "-t", kind)
	must.OK(t, err)
	return strings.TrimSpace(string(out))
}
