package engine_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestFailingCheckpoint: a checkpoint that fails is in the status, in the metrics and, for the
// program that unmounts the store, on disk, until one succeeds.
func TestFailingCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	disk := &noPacks{FS: vfs.OS}
	o := snapshot.Options{Quiet: true, FS: disk}
	s, err := snapshot.Open(dir, o)
	must.OK(t, err)
	stores.Write(t, s, s.Main().Root(), "f", "content")
	ctx := context.Background()
	check := func(failing bool, times int64) {
		t.Helper()
		st := s.Main().Status()
		if got := strings.Contains(st.Health, "checkpoint failed") && strings.Contains(st.Health, "input/output error"); got != failing || !failing && st.Health != "ok" {
			t.Errorf("health: %s", st.Health)
		}
		if st.Metrics.CheckpointsFailed != times {
			t.Errorf("%d checkpoints failed, want %d", st.Metrics.CheckpointsFailed, times)
		}
		if got := engine.LastCheckpointError(dir); strings.Contains(got, "input/output error") != failing || !failing && got != "" {
			t.Errorf("on disk: %q", got)
		}
	}
	check(false, 0)
	disk.fails.Store(true)
	for n := range int64(2) {
		if s.Checkpoint(ctx) == nil {
			t.Fatal("it succeeds")
		}
		check(true, n+1)
	}
	disk.fails.Store(false)
	must.OK(t, s.Checkpoint(ctx))
	check(false, 2)
	stores.Write(t, s, s.Main().Root(), "f", "other content")
	disk.fails.Store(true)
	must.OK(t, s.Close())
	if engine.LastCheckpointError(dir) == "" {
		t.Error("the checkpoint at the end is not told")
	}
	disk.fails.Store(false)
	s, err = snapshot.Open(dir, o)
	must.OK(t, err)
	check(true, 0)
	must.OK(t, s.Close())
	if engine.LastCheckpointError(dir) != "" {
		t.Error("it is told after one succeeded")
	}
}

// noPacks is a disk that fails to write to packs.
type noPacks struct {
	vfs.FS
	fails atomic.Bool
}

type noPacksFile struct {
	vfs.File
	on *noPacks
}

func (n *noPacks) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := n.FS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, ".pack") {
		f = noPacksFile{f, n}
	}
	return f, err
}

func (f noPacksFile) WriteAt(p []byte, off int64) (int, error) {
	if f.on.fails.Load() {
		return 0, syscall.EIO
	}
	return f.File.WriteAt(p, off)
}
