package hostile_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// mostMemory is what an import may take, of the command and of the daemon, in MiB.
const mostMemory = 300

// most is the most memory of its own that a process has until stop is called, in MiB;
// pages of files, which the kernel takes back when it likes, do not count.
func most(pid int) (stop func() int) {
	done, result := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if at := anonLine.FindSubmatch(b); err == nil && at != nil {
				kb, _ := strconv.Atoi(string(at[1]))
				n = max(n, kb>>10)
			}
			select {
			case <-done:
				result <- n
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() int { close(done); return <-result }
}

var anonLine = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

// measured runs a command, and logs and bounds what it and the daemon take.
func measured(t *testing.T, m *harness.Mount, what string, cmd *exec.Cmd) (out []byte, err error) {
	t.Helper()
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	must.OK(t, cmd.Start())
	command, daemon := most(cmd.Process.Pid), most(m.Pid())
	err = cmd.Wait()
	c, d := command(), daemon()
	t.Logf("%s: the command %d MiB, the daemon %d MiB", what, c, d)
	if c > mostMemory || d > mostMemory {
		t.Errorf("%s: the command took %d MiB, the daemon %d MiB", what, c, d)
	}
	return all.Bytes(), err
}

// archive writes an archive, whose entries add makes.
func archive(t *testing.T, add func(w *tar.Writer) error) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bomb.tar.zst")
	f, err := os.Create(name)
	must.OK(t, err)
	z, err := zstd.NewWriter(f)
	must.OK(t, err)
	w := tar.NewWriter(z)
	must.OK(t, add(w))
	must.OK(t, w.Close())
	must.OK(t, z.Close())
	must.OK(t, f.Close())
	return name
}

// named makes an archive of n files of one kind.
func named(kind byte, n int, name func(i int) string) func(w *tar.Writer) error {
	return func(w *tar.Writer) error {
		for i := range n {
			if err := w.WriteHeader(&tar.Header{Typeflag: kind, Name: name(i), Mode: 0o755}); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestArchivesThatBecomeLarge: whatever an archive of a few KB becomes, the daemon and
// the command stay small, also when it comes once more over what it has brought.
func TestArchivesThatBecomeLarge(t *testing.T) {
	n := harness.Count(t, "ENTRIES", 10_000, 1_200_000)
	const dir, file = tar.TypeDir, tar.TypeReg
	large := strings.Repeat("x", 1<<20)
	for what, add := range map[string]func(w *tar.Writer) error{
		"headers": func(w *tar.Writer) error { // each almost as long as one may be
			for i := range n / 1000 {
				if err := w.WriteHeader(&tar.Header{
					Typeflag: file, Name: fmt.Sprint(i), Mode: 0o644, Format: tar.FormatPAX,
					PAXRecords: map[string]string{"SCHILY.xattr.user.x": large[:60<<10], "VENDOR.x": large[:900<<10]},
				}); err != nil {
					return err
				}
			}
			return nil
		},
		"zeros": func(w *tar.Writer) error {
			if err := w.WriteHeader(&tar.Header{Typeflag: file, Name: "zeros", Mode: 0o644, Size: int64(n) << 13}); err != nil {
				return err
			}
			_, err := io.CopyN(w, zeros{}, int64(n)<<13)
			return err
		},
		"directories":   named(dir, n, func(i int) string { return fmt.Sprintf("%d/%d/%d/", i%100, i/100%100, i) }),
		"one directory": named(dir, n, func(i int) string { return fmt.Sprintf("%d/", i) }),
		"deep":          named(dir, n, func(i int) string { return fmt.Sprintf("%d/%s", i/1000, strings.Repeat("d/", i%1000)) }),
		"long names":    named(dir, n, func(i int) string { return fmt.Sprintf("%0250d/", i) }),
		"files":         named(file, n, func(i int) string { return fmt.Sprintf("%d/%d/%d", i%100, i/100%100, i) }),
	} {
		t.Run(what, func(t *testing.T) {
			name := archive(t, add)
			m := harness.New(t)
			for _, turn := range []string{"first", "again"} {
				if out, err := measured(t, m, turn, exec.Command(harness.Binary(t), "-C", m.Dir, "import", "--tar", name, "in")); err != nil {
					t.Fatalf("%s, %v", out, err)
				}
			}
			m.Kill()
			m.Start()
			if n := peak(t, m); n > mostMemory {
				t.Errorf("recovery took %d MiB", n)
			}
		})
	}
}

// zeros is as long as a reader reads it.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func git(t *testing.T, repo, in string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", repo}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output()
	must.OK(t, err)
	return strings.TrimSpace(string(out))
}

// bomb makes a repository of a few objects, with a tree that has ten times as many files
// for each of its levels.
func bomb(t *testing.T, levels int) (repo, tree string) {
	t.Helper()
	repo = t.TempDir()
	git(t, repo, "", "init", "-q")
	id, kind := git(t, repo, "x", "hash-object", "-w", "--stdin"), "100644 blob"
	for range levels {
		var entries strings.Builder
		for i := range 10 {
			fmt.Fprintf(&entries, "%s %s\t%d\n", kind, id, i)
		}
		id, kind = git(t, repo, entries.String(), "mktree"), "040000 tree"
	}
	return repo, id
}

// TestRepositoriesThatBecomeLarge: trees that are in each other, of which as much is read
// as the limit lets come, and a blob of zeros.
func TestRepositoriesThatBecomeLarge(t *testing.T) {
	n := harness.Count(t, "ENTRIES", 10_000, 1_200_000)
	m := harness.New(t)
	repo, tree := bomb(t, 12)
	out, err := measured(t, m, "more than may come", exec.Command(harness.Binary(t), "-C", m.Dir, "import", "--max-files", fmt.Sprint(n), "--git", repo, tree, "in"))
	if err == nil {
		t.Errorf("%d files and more came: %s", n, out)
	}
	nothingLeft(t, m)
	zero := filepath.Join(t.TempDir(), "zero")
	must.OK(t, os.WriteFile(zero, nil, 0o644))
	must.OK(t, os.Truncate(zero, int64(n)<<11))
	tree = git(t, repo, "100644 blob "+git(t, repo, "", "hash-object", "-w", "--no-filters", zero)+"\tzeros\n", "mktree")
	if out, err := measured(t, m, "zeros", exec.Command(harness.Binary(t), "-C", m.Dir, "import", "--git", repo, tree, "zeros")); err != nil {
		t.Errorf("%s, %v", out, err)
	}
}

// nothingLeft looks for what an import that failed may have left.
func nothingLeft(t *testing.T, m *harness.Mount) {
	t.Helper()
	for _, dir := range []string{m.Dir, m.Path(".forks")} {
		if all, err := os.ReadDir(dir); err != nil || len(all) != 0 {
			t.Errorf("%s has %v, %v", dir, all, err)
		}
	}
	if list, err := os.ReadFile(m.Path(".snapshots", "list")); err != nil || string(list) != "no snapshots\n" {
		t.Errorf("the snapshots are %q, %v", list, err)
	}
}

// TestInterruptedImport ends imports in the middle: nothing of them is left.
func TestInterruptedImport(t *testing.T) {
	n := harness.Count(t, "ENTRIES", 30_000, 1_200_000)
	name := archive(t, named(tar.TypeDir, n, func(i int) string { return fmt.Sprintf("%d/%d/%d/", i%100, i/100%100, i) }))
	m := harness.New(t)
	for i := range 3 {
		cmd := exec.Command(harness.Binary(t), "-C", m.Dir, "import", "--tar", "-", "in")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		fed := startWithPart(t, cmd, name, float64(i+1)/4)
		command, daemon := most(cmd.Process.Pid), most(m.Pid())
		<-fed
		must.OK(t, unix.Kill(cmd.Process.Pid, unix.SIGINT))
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		err := await.Receive(t, "the end of the import", ended)
		t.Logf("%v, %s", err, out.Bytes())
		if c, d := command(), daemon(); c > mostMemory || d > mostMemory {
			t.Errorf("the command took %d MiB, the daemon %d MiB", c, d)
		}
		if err == nil {
			t.Error("it succeeded")
		}
		nothingLeft(t, m)
	}
}

// startWithPart starts a command whose input is a part of a file, of which it never sees
// the end: however fast it is, it is in the middle. The part has been read when fed is
// closed, but for a page.
func startWithPart(t *testing.T, cmd *exec.Cmd, name string, part float64) (fed <-chan struct{}) {
	t.Helper()
	all, err := os.ReadFile(name)
	must.OK(t, err)
	r, w, err := os.Pipe()
	must.OK(t, err)
	t.Cleanup(func() { w.Close() })
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	must.OK(t, err)
	cmd.Stdin = r
	must.OK(t, cmd.Start())
	r.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.Write(all[:int(part*float64(len(all)))]) // it may end before it has read that
	}()
	return done
}
