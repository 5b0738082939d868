package hostdir

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

func TestReadDirCarriesEverything(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("device nodes need root")
	}
	root := t.TempDir()
	s := trees.TarTree()
	for p, n := range s {
		if n.Mtime != 0 { // set below
			n.Mtime = 0
			s[p] = n
		}
	}
	delete(s, "x")
	s["s"] = trees.Node{Mode: unix.S_IFSOCK | 0o755}
	s.Write(t, root)
	must.OK(t, os.WriteFile(filepath.Join(root, "x"), []byte("attr"), 0o644))
	must.OK(t, unix.Setxattr(filepath.Join(root, "x"), "user.a", []byte("1\x00"), 0))
	must.OK(t, unix.Setxattr(filepath.Join(root, "x"), "user.big", make([]byte, 2000), 0))
	must.OK(t, os.Chmod(filepath.Join(root, "d/dir"), 0o777|os.ModeSticky))
	must.OK(t, os.Chmod(filepath.Join(root, "suid"), 0o755|os.ModeSetuid|os.ModeSetgid))
	must.OK(t, os.Lchown(filepath.Join(root, "l"), 11, 12))
	for p, n := range s {
		must.OK(t, unix.Lutimes(filepath.Join(root, p), []unix.Timeval{{}, {Sec: trees.SomeTime / 1e9}}))
		if n.Mode&unix.S_IFMT == unix.S_IFREG && len(n.Data) > trees.Mega/2 {
			punch(t, filepath.Join(root, p), n.Data)
		}
	}
	s["x"] = trees.Node{Mode: unix.S_IFREG | 0o644, Data: "attr", Xattrs: []tree.Xattr{{Name: "user.a", Value: []byte("1\x00")}, {Name: "user.big", Value: make([]byte, 2000)}}}
	sink := trees.NewMapSink(t)
	must.OK(t, Read(context.Background(), root, sink.Add, ReadOptions{}))
	expect := trees.Want(s)
	for p, n := range sink.Files {
		w := expect[p]
		if n.Mode&unix.S_IFMT == unix.S_IFDIR || p == "x" || len(n.Data) > trees.Mega/2 {
			w.Mtime = n.Mtime
		}
		if p == "." {
			w.Mode = n.Mode
		}
		expect[p] = w
	}
	trees.SameSpec(t, sink.Files, expect)
	if m := sink.Meta["l"]; m.UID != 11 || m.GID != 12 {
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
	trees.Spec{"a": trees.File("1"), "store/x": trees.File("2"), "d/mount/y": trees.File("3"), "secret": {Mode: unix.S_IFREG}, "locked/z": trees.File("4")}.Write(t, root)
	must.OK(t, os.Chmod(filepath.Join(root, "locked"), 0))
	defer os.Chmod(filepath.Join(root, "locked"), 0o755)
	read := func(o ReadOptions) (string, error) {
		sink := trees.NewMapSink(t)
		o.Exclude = []string{filepath.Join(root, "store"), filepath.Join(root, "d/mount"), filepath.Join(root, "nowhere")}
		err := Read(context.Background(), root, sink.Add, o)
		return strings.Join(trees.Sorted(sink.Plain()), " "), err
	}
	if os.Getuid() == 0 {
		if got, err := read(ReadOptions{}); err != nil || got != "a locked/z secret" {
			t.Errorf("got %q, %v", got, err)
		}
		return
	}
	if _, err := read(ReadOptions{}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("error %v, want a refusal", err)
	}
	var skipped []string
	got, err := read(ReadOptions{Options: stream.Options{Skip: func(p string, err error) { skipped = append(skipped, p) }}})
	if err != nil || got != "a" || strings.Join(skipped, " ") != "locked secret" {
		t.Errorf("got %q, skipped %q, %v", got, skipped, err)
	}
}

// TestReadLists: the access control list of a file that its owner may not read is read unchanged, although the
// reader changes the mode of the file for a moment.
func TestReadLists(t *testing.T) {
	root := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(root, "d"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(root, "f"), []byte("text"), 0o600))
	const user, named, group, mask, other, nobody = 1, 2, 4, 16, 32, 0xffffffff
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, x := range [][3]uint32{{user, 3, nobody}, {named, 5, 1234}, {group, 6, nobody}, {mask, 0, nobody}, {other, 0, nobody}} {
		list = binary.LittleEndian.AppendUint16(list, uint16(x[0]))
		list = binary.LittleEndian.AppendUint16(list, uint16(x[1]))
		list = binary.LittleEndian.AppendUint32(list, x[2])
	}
	for _, name := range []string{"d", "f"} {
		must.OK(t, unix.Setxattr(filepath.Join(root, name), "user.k", []byte("v"), 0))
		must.OK(t, unix.Setxattr(filepath.Join(root, name), "system.posix_acl_access", list, 0))
	}
	sink := trees.NewMapSink(t)
	must.OK(t, Read(t.Context(), root, sink.Add, ReadOptions{ReadDenied: true}))
	for _, name := range []string{"d", "f"} {
		want := []tree.Xattr{{Name: "system.posix_acl_access", Value: list}, {Name: "user.k", Value: []byte("v")}}
		if n := sink.Files[name]; n.Mode&0o777 != 0o300 || !reflect.DeepEqual(n.Xattrs, want) {
			t.Errorf("%s has the mode %o and %v, not %v", name, n.Mode, n.Xattrs, want)
		}
	}
	if n := sink.Files["f"]; n.Data != "text" {
		t.Errorf("it reads %q", n.Data)
	}
}

// TestReadDirAsAnOrdinaryUser runs two tests of Read as an ordinary user, if the tests run as root.
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
	cmd := exec.Command(copied, "-test.run=^(TestReadDirExcludesAndSkips|TestReadLists)$")
	cmd.Dir = open
	cmd.Env = append(os.Environ(), "TMPDIR="+open)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestReadDirFailures(t *testing.T) {
	if err := Read(context.Background(), filepath.Join(t.TempDir(), "none"), trees.Discard, ReadOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Read(ctx, t.TempDir(), trees.Discard, ReadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
