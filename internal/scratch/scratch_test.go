package scratch

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// TestSweep: New removes the directory of a process that has ended, with its contents. It does not remove a
// directory in use, a file or a link. Several goroutines can call New at the same time.
func TestSweep(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	left, err := os.MkdirTemp("", Merge)
	must.OK(t, err)
	must.OK(t, os.MkdirAll(filepath.Join(left, "objects/pack"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(left, "objects/pack/tmp"), []byte("x"), 0o600))
	file, link := filepath.Join(base, Merge+"file"), filepath.Join(base, Export+"link")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	target := t.TempDir()
	must.OK(t, os.Symlink(target, link))
	used, err := New(Export)
	must.OK(t, err)
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				d, err := New(Import)
				if err == nil {
					err = os.WriteFile(filepath.Join(d.Path, "f"), nil, 0o600)
				}
				if err == nil {
					err = d.Remove()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, path := range []string{used.Path, file, link, target} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	must.OK(t, used.Remove())
	if found, _ := filepath.Glob(filepath.Join(base, "*")); len(found) != 2 {
		t.Errorf("there are %q", found)
	}
}

const role = "SCRATCH_TEST_ROLE"

// another starts this program again, with a role: see TestMain.
func another(t *testing.T, as string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), role+"="+as)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	must.OK(t, err)
	out, err := c.StdoutPipe()
	must.OK(t, err)
	must.OK(t, c.Start())
	return c, in, bufio.NewReader(out)
}

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "holds":
		d, err := New(Merge)
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(d.Path + "\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		runtime.KeepAlive(d)
	case "makes":
		for range 200 {
			d, err := New(Merge)
			if err == nil {
				err = os.WriteFile(filepath.Join(d.Path, "f"), nil, 0o600)
			}
			if err == nil {
				Sweep()
				_, err = os.Stat(filepath.Join(d.Path, "f"))
			}
			if err == nil {
				err = d.Remove()
			}
			if err != nil {
				panic(err)
			}
		}
	default:
		os.Exit(m.Run())
	}
}

// TestProcesses: a directory of a running process is not removed. It is removed after the process was killed.
func TestProcesses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, in, out := another(t, "holds")
	defer in.Close()
	line, err := out.ReadString('\n')
	must.OK(t, err)
	path := strings.TrimSuffix(line, "\n")
	for range 50 {
		Sweep()
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("in use by another process: %v", err)
	}
	must.OK(t, c.Process.Kill())
	_ = c.Wait()
	Sweep()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("of a process that was killed: %v", err)
	}
	var makers []*exec.Cmd
	for range 3 {
		c, in, _ := another(t, "makes")
		must.OK(t, in.Close())
		makers = append(makers, c)
	}
	for _, c := range makers {
		must.OK(t, c.Wait())
	}
}

// TestOwners: New succeeds on a file system that gives new directories to another user, as some network file systems
// do. Such a directory is not removed, because its owner is not this user.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	base := t.TempDir()
	must.OK(t, os.Chmod(base, 0o777))
	must.OK(t, os.Chmod(filepath.Dir(base), 0o755))
	t.Setenv("TMPDIR", base)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	made := make(chan error, 1)
	var d *Dir
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		const nobody = 65534
		err := unix.Setfsuid(nobody)
		if err == nil {
			d, err = New(Merge)
		}
		made <- err
	}()
	select {
	case err := <-made:
		must.OK(t, err)
	case <-ctx.Done():
		t.Fatal("making a directory hangs")
	}
	d.lock.Close()
	Sweep()
	if _, err := os.Stat(d.Path); err != nil {
		t.Error(err)
	}
}
