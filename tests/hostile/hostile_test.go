// Package hostile_test is what a user without rights, or an attacker,
// might try on a mount and its store.
package hostile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) {
	switch os.Args[len(os.Args)-1] {
	case inContainer:
		os.Exit(m.Run())
	case inUserNS:
		os.Exit(leave(inUserNS))
	}
	os.Exit(harness.Run(m))
}

// stranger runs a shell script as a user without rights.
func stranger(script string) (string, error) { return as(65533, "/", script) }

// as runs a shell script in a directory as some user.
func as(uid uint32, dir, script string) (string, error) {
	cmd := exec.Command("sh", "-c", "cd "+dir+" && "+script)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	for _, options := range [][]string{nil, {"-o", "allow_other"}} {
		t.Run(strings.Join(options, " "), func(t *testing.T) {
			m := harness.New(t, options...)
			must.OK(t, os.Chmod(m.Dir, 0o700))
			must.OK(t, os.WriteFile(m.Path("secret"), []byte("a secret"), 0o666))
			must.OK(t, os.Mkdir(m.Path(".snapshots", "hidden"), 0o755))
			must.OK(t, os.WriteFile(m.Path(".snapshots", "fork"), []byte("hidden side\n"), 0o644))
			for _, script := range []string{
				"ls %s", "cat %s/secret", "echo x > %s/secret", "echo x > %s/new", "rm %s/secret",
				"ls %s/.snapshots", "cat %s/.snapshots/list", "cat %s/.snapshots/log", "cat %s/.snapshots/status",
				"cat %s/.snapshots/hidden/secret", "ls %s/.forks", "cat %s/.forks/side/secret", "cat %s/.snapshots/diff@hidden",
				"mkdir %s/.snapshots/mine", "echo mine > %s/.snapshots/create", "rmdir %s/.snapshots/hidden",
				"mv %[1]s/.snapshots/hidden %[1]s/.snapshots/other", "mv %[1]s/.snapshots/restore %[1]s/.snapshots/restore@hidden",
				"echo hidden > %s/.snapshots/restore", "mkdir %s/.forks/mine", "echo '{}' > %s/.snapshots/policy",
			} {
				script = fmt.Sprintf(script, m.Dir)
				out, err := stranger(script)
				if err == nil {
					t.Errorf("%s: %q", script, out)
				}
				for _, name := range []string{"a secret", "side\n"} {
					if strings.Contains(out, name) {
						t.Errorf("%s shows %q", script, out)
					}
				}
			}
			if got, err := os.ReadFile(m.Path("secret")); err != nil || string(got) != "a secret" {
				t.Errorf("the file is %q, %v", got, err)
			}
			list, err := os.ReadFile(m.Path(".snapshots", "list"))
			must.OK(t, err)
			if strings.Count(string(list), "\n") != 1 || !strings.HasPrefix(string(list), "hidden\t") {
				t.Errorf("the snapshots are %q", list)
			}
			private(t, m)
		})
	}
}

// TestAnotherUserWhoMayRead has the rights to look, and no more.
func TestAnotherUserWhoMayRead(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	m := harness.New(t, "-o", "allow_other")
	must.OK(t, os.WriteFile(m.Path("open"), []byte("open"), 0o644))
	must.OK(t, os.WriteFile(m.Path("closed"), []byte("closed"), 0o600))
	must.OK(t, os.Mkdir(m.Path(".snapshots", "v"), 0o755))
	if out, err := stranger("cat " + m.Path("open")); err != nil || out != "open" {
		t.Errorf("what all may read: %q, %v", out, err)
	}
	for _, script := range []string{
		"cat %s/closed", "cat %s/.snapshots/v/closed", "echo x > %s/open", "echo x > %s/new",
		"mkdir %s/.snapshots/mine", "echo mine > %s/.snapshots/create", "rmdir %s/.snapshots/v",
		"mv %[1]s/.snapshots/v %[1]s/.snapshots/other", "mv %[1]s/.snapshots/restore %[1]s/.snapshots/restore@v",
		"echo v > %s/.snapshots/restore", "mkdir %s/.forks/mine", "echo 'v mine' > %s/.snapshots/fork",
		"echo '{}' > %s/.snapshots/policy", "echo v > %s/.snapshots/export", "cat %s/.snapshots/diff@v..v/..",
		// They describe files that the stranger may not read.
		"cat %s/.snapshots/diff@base", "cat %s/.snapshots/stat@base", "cat %s/.snapshots/diff@base..v",
		"cat %s/.snapshots/log",
	} {
		script = fmt.Sprintf(script, m.Dir)
		out, err := stranger(script)
		if err == nil {
			t.Errorf("%s: %q", script, out)
		}
		if strings.Contains(out, "+closed") {
			t.Errorf("%s shows a file of 0600", script)
		}
	}
	if b, err := os.ReadFile(m.Path(".snapshots", "diff@base")); err != nil || !strings.Contains(string(b), "+closed") {
		t.Errorf("the owner reads %q, %v", b, err)
	}
	if list, err := os.ReadFile(m.Path(".snapshots", "list")); err != nil || strings.Count(string(list), "\n") != 1 {
		t.Errorf("the snapshots are %q, %v", list, err)
	}
}

// private looks at what lies in the store, and asks its socket as a stranger.
func private(t *testing.T, m *harness.Mount) {
	t.Helper()
	must.OK(t, filepath.WalkDir(m.Store, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, i.Mode())
		}
		return err
	}))
	if i, err := os.Lstat(filepath.Join(m.Store, "socket")); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", i, err)
	}
	if i, err := os.Lstat(m.Store); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("store: %v, %v", i, err)
	}
}

// plantLinks restores paths of a workspace in which links lead to a directory of the host.
func plantLinks(t *testing.T, ws, host string) {
	t.Helper()
	at := func(elem ...string) string { return filepath.Join(append([]string{ws}, elem...)...) }
	must.OK(t, os.MkdirAll(at("l/e"), 0o755))
	must.OK(t, os.WriteFile(at("l/file"), []byte("ours"), 0o644))
	must.OK(t, os.WriteFile(at("l/e/file"), []byte("ours"), 0o644))
	must.OK(t, os.Mkdir(at(".snapshots/real"), 0o755))
	must.OK(t, os.RemoveAll(at("l")))
	must.OK(t, os.Symlink(host, at("l")))
	must.OK(t, os.Symlink("/etc/passwd", at("p")))
	must.OK(t, os.Mkdir(at(".snapshots/links"), 0o755))
	for _, request := range []string{"real l/file", "real l/e", "real", "links", "real l"} {
		_ = os.WriteFile(at(".snapshots/restore"), []byte(request+"\n"), 0o644) // may fail, must not follow
	}
}

// notFollowed looks at the directory of the host.
func notFollowed(t *testing.T, host string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(host, "file")); err != nil || string(got) != "the host's" {
		t.Errorf("the host's file is %q, %v", got, err)
	}
	if all, err := os.ReadDir(host); err != nil || len(all) != 1 {
		t.Errorf("the host's directory has %v, %v", all, err)
	}
}

// TestPlantedLinks: links of the workspace lead nowhere for the daemon.
func TestPlantedLinks(t *testing.T) {
	m := harness.New(t)
	host := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(host, "file"), []byte("the host's"), 0o644))
	plantLinks(t, m.Dir, host)
	notFollowed(t, host)
	for _, command := range [][]string{{"diff", "links", "real"}, {"export", "links", "--tar", filepath.Join(t.TempDir(), "t")}, {"history", "p"}} {
		if out := m.Amberfs(command...); strings.Contains(out, "root:") || strings.Contains(out, "the host's") {
			t.Errorf("%v shows a file of the host: %q", command, out)
		}
	}
}

// TestGarbage floods the control files.
func TestGarbage(t *testing.T) {
	m := harness.New(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	garbage(t, m.Dir, rnd)
	for range 50 {
		c, err := net.Dial("unix", filepath.Join(m.Store, "socket"))
		must.OK(t, err)
		b := make([]byte, rnd.IntN(5000))
		for k := range b {
			b[k] = byte(rnd.Uint32())
		}
		_, _ = c.Write(b)
		c.Close()
	}
	m.Amberfs("status")
}

// garbage floods the control files of a workspace.
func garbage(t *testing.T, ws string, rnd *rand.Rand) {
	t.Helper()
	snapshots := filepath.Join(ws, ".snapshots")
	must.OK(t, os.Mkdir(filepath.Join(ws, "d"), 0o755))
	must.OK(t, os.WriteFile(filepath.Join(ws, "d/file"), []byte("content"), 0o644))
	must.OK(t, os.Mkdir(filepath.Join(snapshots, "garbage"), 0o755))
	before := harness.ReadTree(t, filepath.Join(snapshots, "garbage/d"))
	for i := range 400 {
		b := make([]byte, 1+rnd.IntN([]int{8, 300, 5000, 200_000}[i%4]))
		for k := range b {
			b[k] = byte(rnd.Uint32())
		}
		name := []string{"create", "restore", "fork", "export", "policy", "create.tmp.1", "list", "status", "README"}[rnd.IntN(9)]
		_ = os.WriteFile(filepath.Join(snapshots, name), b, 0o644)
		_ = os.Mkdir(filepath.Join(snapshots, strings.ReplaceAll(string(b[:min(len(b), 200)]), "/", "_")), 0o755)
		_, _ = os.ReadFile(filepath.Join(snapshots, "diff@"+string(b[:min(len(b), 20)])))
	}
	harness.CheckSameTree(t, "after garbage", before, harness.ReadTree(t, filepath.Join(snapshots, "garbage/d")))
	if got, err := os.ReadFile(filepath.Join(ws, "d/file")); err != nil || string(got) != "content" {
		t.Errorf("file: %q, %v", got, err)
	}
}

func TestThousandsOfCapturesAtOnce(t *testing.T) {
	n := harness.Count(t, "CAPTURES", 1000, 20_000)
	m := harness.New(t)
	must.OK(t, os.WriteFile(m.Path("file"), []byte("content"), 0o644))
	var wg sync.WaitGroup
	for w := range 100 {
		wg.Go(func() {
			for i := w; i < n; i += 100 {
				if err := os.Mkdir(m.Path(".snapshots", fmt.Sprint("s", i)), 0o755); err != nil {
					t.Errorf("capture %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	list, err := os.ReadFile(m.Path(".snapshots", "list"))
	must.OK(t, err)
	if got := bytes.Count(list, []byte("\n")); got != n {
		t.Errorf("%d snapshots of %d", got, n)
	}
	for i := 0; i < n; i += 97 {
		if got, err := os.ReadFile(m.Path(".snapshots", fmt.Sprint("s", i), "file")); err != nil || string(got) != "content" {
			t.Errorf("s%d: %q, %v", i, got, err)
		}
	}
	m.Stop()
	m.Start()
	if again, err := os.ReadFile(m.Path(".snapshots", "list")); err != nil || bytes.Count(again, []byte("\n")) != n {
		t.Errorf("after mounting again: %d lines, %v", bytes.Count(again, []byte("\n")), err)
	}
}

// everyByte makes files in a new directory, with each byte that a name can have.
func everyByte(t *testing.T, dir string) map[string]bool {
	t.Helper()
	want := map[string]bool{}
	for c := 1; c < 256; c++ {
		if c == '/' {
			continue
		}
		for _, name := range []string{string([]byte{byte(c)}), "x" + string([]byte{byte(c)}) + "y"} {
			if name == "." {
				continue
			}
			must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
			want[name] = true
		}
	}
	return want
}

func TestNamesOfEveryByte(t *testing.T) {
	m := harness.New(t)
	want := everyByte(t, m.Dir)
	must.OK(t, os.Mkdir(m.Path(".snapshots", "v"), 0o755))
	must.OK(t, os.WriteFile(m.Path("x"), []byte("more"), 0o644))
	look := func(dir string) {
		t.Helper()
		all, err := os.ReadDir(dir)
		must.OK(t, err)
		for _, e := range all {
			if want[e.Name()] {
				if got, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil || e.Name() != "x" && string(got) != e.Name() {
					t.Errorf("%q: %q, %v", e.Name(), got, err)
				}
			} else if e.Name() != "x" {
				t.Errorf("%q is too much", e.Name())
			}
		}
		if len(all) < len(want) {
			t.Errorf("%d names of %d", len(all), len(want))
		}
	}
	look(m.Path(".snapshots", "v"))
	m.Stop()
	m.Start()
	look(m.Dir)
	m.Amberfs("diff", "v")
	m.Amberfs("restore", "v")

	// One of them at a time, also by the one that replays the journal.
	for _, name := range []string{"x\xffy", "x\ny", "x\"y", "x<y", "x\\y"} {
		must.OK(t, os.WriteFile(m.Path(name), []byte("changed"), 0o644))
		if out := m.Amberfs("diff", "v", "--", m.Path(name)); !strings.Contains(out, "+changed") {
			t.Errorf("the diff of %q is %q", name, out)
		}
		m.Amberfs("history", m.Path(name))
		m.Amberfs("restore", "v", m.Path(name))
		must.OK(t, os.WriteFile(m.Path(name), []byte("again"), 0o644))
		m.Amberfs("revert", m.Path(name), "v")
	}
	m.Kill()
	m.Start()
	look(m.Dir)
}

// TestClientsStoppedAndKilled in the middle of a request keep no other request waiting.
func TestClientsStoppedAndKilled(t *testing.T) {
	m := harness.New(t)
	var clients []*exec.Cmd
	for i := range 8 {
		c := exec.Command("sh", "-c", fmt.Sprintf("while :; do dd if=/dev/zero of=%s bs=1M count=4 2>/dev/null; cat %s >/dev/null; done", m.Path(fmt.Sprint("f", i)), m.Path(fmt.Sprint("f", i))))
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		must.OK(t, c.Start())
		clients = append(clients, c)
	}
	harness.Eventually(t, "each is in the middle of its work", func() bool {
		for i := range clients {
			if fi, err := os.Stat(m.Path(fmt.Sprint("f", i))); err != nil || fi.Size() == 0 {
				return false
			}
		}
		return true
	})
	for i, c := range clients {
		sig := unix.SIGSTOP
		if i%2 == 0 {
			sig = unix.SIGKILL
		}
		must.OK(t, unix.Kill(-c.Process.Pid, sig))
	}
	for i := range 20 {
		must.OK(t, os.WriteFile(m.Path(fmt.Sprint("other", i)), []byte("x"), 0o644))
		must.OK(t, os.Mkdir(m.Path(".snapshots", fmt.Sprint("s", i)), 0o755))
	}
	m.Amberfs("restore", "s0")
	for _, c := range clients {
		_ = unix.Kill(-c.Process.Pid, unix.SIGKILL)
		_ = c.Wait()
	}
}

// TestSnapshotDeletedUnderReaders: a program that has a file, a directory or the working
// directory in a snapshot that is deleted reads what it was, or is told that it
// is gone, and never reads anything else.
func TestSnapshotDeletedUnderReaders(t *testing.T) {
	m := harness.New(t)
	content := func(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%07d\n", n)), 20_000) }
	for n := range 25 {
		must.OK(t, os.WriteFile(m.Path("file"), content(n), 0o644))
		name := fmt.Sprint("s", n)
		m.Amberfs("snapshot", name)
		at := m.Path(".snapshots", name)
		f, err := os.Open(filepath.Join(at, "file"))
		must.OK(t, err)
		d, err := os.Open(at)
		must.OK(t, err)
		inside := exec.Command("sh", "-c", "read go; cat file; ls; echo done")
		inside.Dir = at
		in, err := inside.StdinPipe()
		must.OK(t, err)
		var out bytes.Buffer
		inside.Stdout = &out
		must.OK(t, inside.Start())
		half := make([]byte, 1000)
		_, err = f.ReadAt(half, 0)
		must.OK(t, err)

		must.OK(t, unix.Rmdir(at))
		must.OK(t, os.WriteFile(m.Path("file"), content(n+1000), 0o644))
		m.Amberfs("gc")
		fmt.Fprintln(in, "go")
		in.Close()
		_ = inside.Wait()

		got := make([]byte, len(content(n)))
		k, err := f.ReadAt(got, 0)
		if err != nil && !errors.Is(err, unix.ESTALE) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("read of a deleted snapshot: %v", err)
		}
		if !bytes.Equal(got[:k], content(n)[:k]) {
			t.Fatalf("a file of a deleted snapshot has other bytes")
		}
		if _, err := d.ReadDir(-1); err != nil && !errors.Is(err, unix.ESTALE) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("listing a deleted snapshot: %v", err)
		}
		if s := out.String(); strings.Contains(s, fmt.Sprintf("%07d", n+1000)) || !strings.HasSuffix(s, "done\n") {
			t.Errorf("who stood in a deleted snapshot sees %.100q…", s)
		}
		f.Close()
		d.Close()
	}
}
