package index

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestMappedFilesHaveBlocks: Badger's files have the blocks that are written through
// mappings, so a full disk is an error and no fault. A log for which there are none is
// in memory, and the index is rebuilt after a kill.
func TestMappedFilesHaveBlocks(t *testing.T) {
	dir := t.TempDir()
	x, err := Open(dir, slog.New(slog.DiscardHandler), false)
	must.OK(t, err)
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	i, err := vfs.OS.Stat(logs[0])
	if err != nil || i.Allocated < i.Size || i.Size < MemtableSize {
		t.Fatalf("of a log of %d bytes, %d are on the disk; %v", i.Size, i.Allocated, err)
	}
	logsInMemory.Add(1) // as if there had been no room for the next log
	b := x.Batch(nil)
	b.Put([]byte("k"), []byte("v"))
	must.OK(t, b.Commit())
	again := t.TempDir()
	must.CopyStore(t, again, dir)
	if _, err := Open(again, slog.New(slog.DiscardHandler), false); !errors.Is(err, ErrBroken) {
		t.Errorf("after a kill it opens: %v", err)
	}
	must.OK(t, x.Close())
	if x, err = Open(dir, slog.New(slog.DiscardHandler), false); err != nil {
		t.Fatalf("after an orderly end: %v", err)
	}
	must.OK(t, x.Close())
}
