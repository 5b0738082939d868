package hostile_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/tests/harness"
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
	began := time.Now()
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	must(t, cmd.Start())
	command, daemon := most(cmd.Process.Pid), most(m.Pid())
	err = cmd.Wait()
	c, d := command(), daemon()
	t.Logf("%s: %v, the command %d MiB, the daemon %d MiB", what, time.Since(began).Round(time.Second/10), c, d)
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
	must(t, err)
	z, err := zstd.NewWriter(f)
	must(t, err)
	w := tar.NewWriter(z)
	must(t, add(w))
	must(t, w.Close())
	must(t, z.Close())
	must(t, f.Close())
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
	n := harness.Count(t, "ENTRIES", 20_000, 1_200_000)
	const dir, file = tar.TypeDir, tar.TypeReg
	for what, add := range map[string]func(w *tar.Writer) error{
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
