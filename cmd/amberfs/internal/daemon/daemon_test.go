package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/must"
)

func TestLogIsHeldThenBounded(t *testing.T) {
	dir := t.TempDir()
	var also bytes.Buffer
	l := newLogFile(&also)
	l.maxSize = 1000
	line := []byte(strings.Repeat("x", 99) + "\n")
	_, err := l.Write([]byte("early\n"))
	must.OK(t, err)
	must.OK(t, l.open(dir))
	for range 50 {
		if n, err := l.Write(line); err != nil || n != len(line) {
			t.Fatal(n, err)
		}
	}
	l.close()
	var total int64
	for _, name := range []string{LogName, LogName + ".1"} {
		st, err := os.Stat(filepath.Join(dir, name))
		must.OK(t, err)
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, st.Mode())
		}
		total += st.Size()
	}
	if total > 2*l.maxSize {
		t.Errorf("the log takes %d bytes", total)
	}
	if !strings.HasPrefix(also.String(), "early\n") || also.Len() != 6+50*len(line) {
		t.Errorf("the terminal got %d bytes", also.Len())
	}
}

func TestLogKeepsWhatCameBefore(t *testing.T) {
	dir := t.TempDir()
	l := newLogFile(&bytes.Buffer{})
	_, err := l.Write([]byte("early\n"))
	must.OK(t, err)
	must.OK(t, l.open(dir))
	l.close()
	if b, err := os.ReadFile(filepath.Join(dir, LogName)); err != nil || string(b) != "early\n" {
		t.Errorf("log = %q, %v", b, err)
	}
}

// TestLogIsNoLink: the daemon does not open a log that is a symbolic link. Another user could have made the link,
// and its target would be changed.
func TestLogIsNoLink(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "bashrc")
	must.OK(t, os.WriteFile(outside, []byte("mine\n"), 0o600))
	must.OK(t, os.Symlink(outside, filepath.Join(dir, LogName)))
	l := newLogFile(&bytes.Buffer{})
	if err := l.open(dir); err == nil {
		t.Error("a link is opened")
		l.close()
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "mine\n" {
		t.Errorf("outside is %q, %v", b, err)
	}
}

func TestReadinessPipe(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(MessageFunc, *os.File)
		want func(Ready, error) bool
	}{
		{"ready", func(s MessageFunc, w *os.File) { s(Message{Ready: &Ready{Store: "/s", PID: 7}}) }, func(r Ready, err error) bool { return err == nil && r.PID == 7 }},
		{"failed", func(s MessageFunc, w *os.File) { s(Message{Error: errs.Fail(errs.Busy, "in use").WithHint("wait")}) }, func(_ Ready, err error) bool {
			return errs.ScriptKind(err) == errs.Busy && err.Error() == "in use; wait"
		}},
		{"died", func(s MessageFunc, w *os.File) { w.Close() }, func(_ Ready, err error) bool { return errors.Is(err, errNoReadyMessage) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			must.OK(t, err)
			defer r.Close()
			p := PipeMessageFunc(w)
			p.note("cleaned up")
			p.progress(service.Progress{What: "importing"})
			p.progress(service.Progress{What: "importing"}) // left out, because it follows too soon
			c.end(p, w)
			progress, notes := 0, 0
			ready, err := awaitReady(r, func(m Message) {
				if m.Progress != nil {
					progress++
				} else {
					notes++
				}
			})
			if !c.want(ready, err) {
				t.Errorf("awaitReady = %+v, %v", ready, err)
			}
			if progress != 1 || notes != 1 {
				t.Errorf("heard %d progress, %d notes", progress, notes)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"mnt", "full", "around/inside", "reserved/.snapshots", "tree"} {
		must.OK(t, os.MkdirAll(path(d), 0o755))
	}
	for _, f := range []string{"file", "full/diary"} {
		must.OK(t, os.WriteFile(path(f), []byte("x"), 0o644))
	}
	for _, c := range []struct {
		name              string
		store, mnt, from  string
		kind              errs.Kind
		mentions, mention string
	}{
		{"store inside mount point", "around/inside/s", "around", "", errs.Invalid, "inside the mount point", "beside"},
		{"store is a file", "file", "mnt", "", errs.Invalid, "file", "directory"},
		{"no parent of the store", "no/such/store", "mnt", "", errs.NotExist, "no/such", "mkdir -p"},
		{"no mount point", "s", "nowhere", "", errs.NotExist, "nowhere", "mkdir -p"},
		{"mount point is a file", "s", "file", "", errs.Invalid, "file", "directory"},
		{"nothing to fill from", "s", "mnt", "missing", errs.NotExist, "missing", ""},
		{"filled from a file", "s", "mnt", "file", errs.Invalid, "file", "directory"},
		{"filled from around the store", "tree/s", "mnt", "tree", errs.Invalid, "inside", "elsewhere"},
		{"filled with reserved names", "s", "mnt", "reserved", errs.Invalid, ".snapshots", "rename"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Store: path(c.store), Mountpoint: path(c.mnt)}
			if c.from != "" {
				cfg.From = path(c.from)
			}
			err := checkConfig(&cfg, func(Message) {})
			if errs.ScriptKind(err) != c.kind {
				t.Fatalf("check = %v (%s), want %s", err, errs.ScriptKind(err), c.kind)
			}
			for _, m := range []string{c.mentions, c.mention} {
				if !strings.Contains(err.Error(), m) {
					t.Errorf("%q does not say %q", err, m)
				}
			}
			if _, err := os.Stat(path("full/diary")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestVerifyWithoutPermission: a store that this user may not read does not count as damaged, because a repair would
// not help.
func TestVerifyWithoutPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{})
	must.OK(t, err)
	must.OK(t, s.Close())
	packs := filepath.Join(dir, "packs")
	must.OK(t, os.Chmod(packs, 0))
	defer os.Chmod(packs, 0o700)
	_, err = VerifyStore(context.Background(), dir, false, func(service.Progress) {})
	if errs.ScriptKind(err) == errs.Damaged || !errors.Is(err, os.ErrPermission) {
		t.Errorf("verify says %v", err)
	}
}

// TestVerifyReadOnlyDisk: a store on a read-only disk does not count as damaged.
func TestVerifyReadOnlyDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{})
	must.OK(t, err)
	must.OK(t, s.Close())
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skip("binding:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	must.OK(t, unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err = VerifyStore(context.Background(), dir, false, func(service.Progress) {})
	if !errors.Is(err, unix.EROFS) || errs.ScriptKind(err) == errs.Damaged {
		t.Errorf("verify says %v", err)
	}
}

// TestRootVerifiesOnlyItsOwn: root does not repair the store of another user, because it must not write to it.
func TestRootVerifiesOnlyItsOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{})
	must.OK(t, err)
	must.OK(t, errors.Join(s.Close(), os.Lchown(dir, 65533, 65532)))
	if _, err := VerifyStore(context.Background(), dir, true, nil); errs.ScriptKind(err) != errs.Perm {
		t.Errorf("verify says %v", err)
	}
}
