package fusefs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// mountReady mounts a store with some snapshots, v1 and so on. The function ready is called before each operation of
// the control tree.
func mountReady(t *testing.T, snapshots int, ready func(ctx context.Context) error) *Server {
	t.Helper()
	dir := t.TempDir()
	s, err := snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{Quiet: true})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	uid := uint32(os.Getuid())
	_, err = s.Forest().SetAttr(s.Main().Root(), live.SetAttr{UID: &uid})
	must.OK(t, err)
	for i := range snapshots {
		_, err = s.Main().Capture(snapshot.CaptureOptions{Name: fmt.Sprintf("v%d", i+1)})
		must.OK(t, err)
	}
	point := filepath.Join(dir, "mount")
	must.OK(t, os.Mkdir(point, 0o700))
	asked := service.New(service.Config{
		Store: s, Log: slog.New(slog.DiscardHandler), Mount: service.Mount{WaitReady: ready, ReadOnly: func() bool { return false }},
	})
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skip(err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := Mount(Options{Store: s, Mountpoint: point, Logger: slog.New(slog.DiscardHandler), Control: control.Options{Service: asked}})
	must.OK(t, err)
	go m.Serve()
	t.Cleanup(func() {
		must.OK(t, m.Unmount())
		m.Wait()
	})
	return m
}

// TestInterruptedClient: a client that is killed while a file is rendered for it does not wait for the rendering. A
// client that gets another signal waits.
func TestInterruptedClient(t *testing.T) {
	began, finish, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	m := mountReady(t, 2, func(ctx context.Context) error {
		began <- struct{}{}
		select {
		case <-finish:
		case <-ctx.Done():
		}
		ended <- ctx.Err()
		return ctx.Err()
	})
	// This process must not use its own mount: os.WriteFile would poll the file, and no thread would be left to
	// answer.
	must.OK(t, exec.Command("sh", "-c", `echo new > "$0"`, filepath.Join(m.Mountpoint(), "f")).Run())
	var out bytes.Buffer
	cmd := exec.Command("sh", "-c", `trap : USR1; exec 3< "$0"; cat <&3`, filepath.Join(m.Mountpoint(), ".snapshots", "diff@v1"))
	cmd.Stdout, cmd.Stderr = &out, &out
	must.OK(t, cmd.Start())
	<-began
	must.OK(t, cmd.Process.Signal(unix.SIGUSR1))
	await.True(t, "the signal has come", func() bool { return m.readers.parking.interruptedCount.Load() > 0 })
	// Another request is answered after it.
	if err := exec.Command("ls", m.Mountpoint()).Run(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
		t.Fatal("a signal that kills nobody has ended a request")
	case finish <- struct{}{}:
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "+new\n") {
		t.Errorf("a client that got a signal: %q, %v", out.String(), err)
	}
	<-ended

	cmd = exec.Command("cat", filepath.Join(m.Mountpoint(), ".snapshots", "diff@v2"))
	must.OK(t, cmd.Start())
	<-began
	must.OK(t, cmd.Process.Kill())
	await.Receive(t, "the end of what a client that was killed waits for", ended)
	_ = cmd.Wait() // killed
}

// TestLongRequest: while a file is rendered or a command runs, which may take long, other programs use the
// directory and the same control file.
func TestLongRequest(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	m := mountReady(t, 1, func(ctx context.Context) error {
		began <- struct{}{}
		<-finish
		return nil
	})
	in := func(script string) chan error {
		cmd, ended := exec.Command("sh", "-ec", script), make(chan error, 1)
		cmd.Dir = filepath.Join(m.Mountpoint(), ".snapshots")
		must.OK(t, cmd.Start())
		go func() { ended <- cmd.Wait() }()
		return ended
	}

	read := in("cat diff@v1")
	await.Receive(t, "the beginning of a rendering", began)
	if err := await.Receive(t, "the end of a program that makes a name", in("echo v2 > create.tmp.1; mv create.tmp.1 create.tmp.2")); err != nil {
		t.Error(err)
	}
	first := in(`echo '{"op":"list"}' > call`)
	await.Receive(t, "the beginning of a command", began)
	second := in(`echo '{"op":"list"}' > call; grep v1 call`)
	await.Receive(t, "the beginning of another one in the same file", began)

	close(finish)
	for _, ended := range []chan error{read, first, second} {
		if err := await.Receive(t, "the end of a program", ended); err != nil {
			t.Error(err)
		}
	}
}
