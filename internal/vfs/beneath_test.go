package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

func openBeneath(t *testing.T, dir string) *Root {
	t.Helper()
	b, err := OpenRoot(dir)
	must.OK(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// TestBeneathFollowsNothing: no function follows a symbolic link, neither at the path nor on the way to it. Opening
// a FIFO fails, and does not block.
func TestBeneathFollowsNothing(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(outside, "secret")
	must.OK(t, os.WriteFile(secret, []byte("theirs"), 0o600))
	for name, target := range map[string]string{"link": secret, "dangling": filepath.Join(outside, "new"), "way": outside} {
		must.OK(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must.OK(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	b := openBeneath(t, dir)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range []string{"link", "dangling", "way/secret", "way/new", "fifo", "../x", "way"} {
			for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE | os.O_TRUNC, os.O_WRONLY | os.O_CREATE | os.O_APPEND} {
				path := dir + "/" + name
				f, err := b.OpenFile(path, flag, 0o600)
				var pe *fs.PathError
				if err == nil {
					t.Errorf("%s opens with %#x", name, flag)
					f.Close()
				} else if !errors.As(err, &pe) || pe.Path != path {
					t.Errorf("%s: %v does not tell the path", name, err)
				}
			}
		}
	}()
	await.Receive(t, "opening all", done)
	if got, err := os.ReadFile(secret); err != nil || string(got) != "theirs" {
		t.Errorf("the file outside holds %q, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made outside: %v", err)
	}
	for what, err := range map[string]error{
		"mkdir":   b.MkdirAll(filepath.Join(dir, "way", "sub"), 0o700),
		"remove":  b.Remove(filepath.Join(dir, "way", "secret")),
		"rename":  b.Rename(filepath.Join(dir, "fifo"), filepath.Join(dir, "way", "fifo")),
		"syncdir": b.SyncDir(filepath.Join(dir, "way")),
		"outside": b.Remove(secret),
	} {
		if err == nil {
			t.Errorf("%s goes through a link", what)
		}
	}
	if _, err := b.ReadDir(filepath.Join(dir, "way")); err == nil {
		t.Error("a linked directory is listed")
	}
	infos, err := b.ReadDir(dir)
	if err != nil || len(infos) != 4 {
		t.Fatal(infos, err)
	}
	for _, i := range infos {
		if i.IsDir {
			t.Errorf("%+v", i)
		}
	}
	if i, err := b.Stat(filepath.Join(dir, "link")); err != nil || i.Size == 6 {
		t.Errorf("a link is %+v, %v", i, err)
	}
}

// TestBeneathMoved: after the directory was moved, a Root still uses this directory, and not a new one at the old
// path.
func TestBeneathMoved(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "store")
	must.OK(t, os.Mkdir(dir, 0o700))
	b := openBeneath(t, dir)
	name := filepath.Join(dir, "sub", "file")
	must.OK(t, b.MkdirAll(filepath.Dir(name), 0o700))
	must.OK(t, WriteFile(b, name, []byte("a")))
	must.OK(t, os.Rename(dir, dir+".moved"))
	must.OK(t, os.Mkdir(dir, 0o700))
	must.OK(t, WriteFile(b, name, []byte("b")))
	for _, path := range []string{b.Path(name), filepath.Join(dir+".moved", "sub", "file")} {
		if got, err := os.ReadFile(path); err != nil || string(got) != "b" {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
	if infos, err := os.ReadDir(dir); err != nil || len(infos) > 0 {
		t.Errorf("the new directory has %v, %v", infos, err)
	}
	if _, err := b.Stat(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat: %v", err)
	}
}

// TestBeneathHardLinks: a file with a second hard link is read, but not written. A new file takes the name of such a
// file, and does not change the other names.
func TestBeneathHardLinks(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	theirs := filepath.Join(outside, "theirs")
	must.OK(t, os.WriteFile(theirs, []byte("theirs"), 0o600))
	names := []string{"lock", "made", "replaced", "replaced.tmp"}
	for _, name := range names {
		must.OK(t, os.Link(theirs, filepath.Join(dir, name)))
	}
	b := openBeneath(t, dir)
	lock := filepath.Join(dir, "lock")
	for _, flag := range []int{os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_CREATE | os.O_TRUNC, os.O_WRONLY | os.O_APPEND} {
		if f, err := b.OpenFile(lock, flag, 0o600); !errors.Is(err, ErrLinked) {
			t.Errorf("a linked file opens with %#x: %v, %v", flag, f, err)
		}
	}
	if got, err := ReadFile(b, lock); err != nil || string(got) != "theirs" {
		t.Errorf("reading a linked file: %q, %v", got, err)
	}
	f, err := Create(b, filepath.Join(dir, "made"))
	must.OK(t, err)
	_, err = f.WriteAt([]byte("ours"), 0)
	must.OK(t, err)
	must.OK(t, f.Close())
	must.OK(t, WriteFile(b, filepath.Join(dir, "replaced"), []byte("ours")))
	if got, err := os.ReadFile(theirs); err != nil || string(got) != "theirs" {
		t.Errorf("the file outside has %q, %v", got, err)
	}
}
