package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
)

// mountDiff mounts a store with the snapshots v1 and so on, whose diffs are what
// diff renders.
func mountDiff(t *testing.T, snapshots int, diff func(ctx context.Context, ws *snapshot.Workspace, a, b string, stat bool) ([]byte, error)) *Server {
	t.Helper()
	dir := t.TempDir()
	s, err := snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for i := range snapshots {
		if _, err := s.Main().Capture(context.Background(), snapshot.CaptureOptions{Name: fmt.Sprintf("v%d", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
	point := filepath.Join(dir, "mount")
	if err := os.Mkdir(point, 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := Mount(Options{Store: s, Mountpoint: point, Control: Control{Diff: diff}})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOENT) || errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	go m.Serve()
	t.Cleanup(func() {
		if err := m.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestInterruptedClient: a client that is killed while something is rendered for it
// does not wait for that; one that gets another signal does.
func TestInterruptedClient(t *testing.T) {
	began, finish, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	m := mountDiff(t, 2, func(ctx context.Context, _ *snapshot.Workspace, _, _ string, _ bool) ([]byte, error) {
		began <- struct{}{}
		select {
		case <-finish:
		case <-ctx.Done():
		}
		ended <- ctx.Err()
		return []byte("a diff\n"), ctx.Err()
	})
	var out bytes.Buffer
	cmd := exec.Command("sh", "-c", `trap : USR1; exec 3< "$0"; cat <&3`, filepath.Join(m.Mountpoint(), ".snapshots", "diff@v1"))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := cmd.Process.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("a signal that kills nobody has ended a request")
	case <-time.After(4 * killedTick):
	}
	finish <- struct{}{}
	if err := cmd.Wait(); err != nil || out.String() != "a diff\n" {
		t.Errorf("a client that got a signal: %q, %v", out.String(), err)
	}
	<-ended

	cmd = exec.Command("cat", filepath.Join(m.Mountpoint(), ".snapshots", "diff@v2"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("a client that was killed waits")
		finish <- struct{}{}
	}
	_ = cmd.Wait() // killed
}

// TestManyLargeFiles: the kernel is made to forget generated files before they take
// all memory.
func TestManyLargeFiles(t *testing.T) {
	const size, count = 8 << 20, 40
	m := mountDiff(t, count, func(context.Context, *snapshot.Workspace, string, string, bool) ([]byte, error) {
		return make([]byte, size), nil
	})
	c := m.fs.control
	kept := func() (total int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, n := range c.mu.nodes {
			total += len(n.content)
		}
		return total
	}
	for i := range count {
		name := filepath.Join(m.Mountpoint(), ".snapshots", fmt.Sprintf("diff@v%d", i+1))
		if out, err := exec.Command("stat", "-c", "%s", name).CombinedOutput(); err != nil || string(out) != fmt.Sprintln(size) {
			t.Fatalf("%s, %v", out, err)
		}
	}
	for end := time.Now().Add(5 * time.Second); kept() > maxLarge; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are kept", kept())
		}
	}
}

func TestKillPending(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tcat\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n": true,
		"Name:\tcat\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000102\n": true,
		"Name:\tcat\nSigPnd:\t0000000000000002\nShdPnd:\t0000000000000200\n": false,
		"Name:\tSigPnd\nSigBlk:\t0000000000000100\n":                         false,
		"": false,
	} {
		if killPending(status) != want {
			t.Errorf("%q: %v", status, !want)
		}
	}
}

// TestManyScratchFiles: what somebody makes and leaves in .snapshots is bounded, and
// the newest are there.
func TestManyScratchFiles(t *testing.T) {
	m := mountDiff(t, 0, nil)
	script := `cd "$0/.snapshots" || exit 1
i=0; while [ $i -lt 1000 ]; do echo "$i" > create.tmp.$i || exit 2; i=$((i+1)); done
[ "$(cat create.tmp.999)" = 999 ] && [ ! -e create.tmp.1 ] && rm create.tmp.998 && mv create.tmp.997 create`
	if out, err := exec.Command("sh", "-c", script, m.Mountpoint()).CombinedOutput(); err != nil {
		t.Errorf("%s, %v", out, err)
	}
	c := m.fs.control
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		n := len(c.mu.nodes)
		c.mu.Unlock()
		if n <= maxScratchFiles+10 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d files are kept", n)
		}
	}
	if _, err := m.fs.store.Main().Find("997"); err != nil {
		t.Error(err)
	}
}
