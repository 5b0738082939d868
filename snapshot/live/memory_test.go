package live

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

// TestMemoryOfNewFiles: what a small file just made and written takes in memory, with
// its name, its attributes and where its bytes are.
func TestMemoryOfNewFiles(t *testing.T) {
	const files, most = 50_000, 250
	f := testForestIn(t, vfs.OS, t.TempDir())
	before := heapInUse()
	root, dir := Node(MainView, RootIno), NodeID(0)
	for i := range files {
		if i%100 == 0 {
			a, err := f.Create(root, fmt.Sprintf("d%05d", i/100), Create{Mode: unix.S_IFDIR | 0o755})
			if err != nil {
				t.Fatal(err)
			}
			dir = a.ID
		}
		a, err := f.Create(dir, fmt.Sprintf("f%07d", i), Create{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			_, err = f.Write(a.ID, fmt.Appendf(nil, "file %d\n", i), 0, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	each := (heapInUse() - before) / files
	runtime.KeepAlive(f)
	t.Logf("%d bytes a file", each)
	if each > most {
		t.Errorf("a file takes %d bytes, more than %d", each, most)
	}
}

// TestPackedFiles changes files long after they were made.
func TestPackedFiles(t *testing.T) {
	const files = 20_000
	f := testForestIn(t, vfs.OS, t.TempDir())
	ids := make([]NodeID, files)
	text := func(i, round int) []byte { return fmt.Appendf(nil, "file %d in round %d\n", i, round) }
	for i := range ids {
		a, err := f.Create(Node(MainView, RootIno), fmt.Sprint(i), Create{Mode: unix.S_IFREG | 0o644})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = a.ID
	}
	for round := range 2 {
		for i, id := range ids {
			mode := uint32(0o600 + i%64)
			_, err := f.Write(id, text(i, round), 0, true)
			if err == nil {
				_, err = f.SetAttr(id, SetAttr{Mode: &mode})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, id := range ids {
		buf := make([]byte, 100)
		n, err := f.ReadAt(id, buf, 0)
		if err != nil || string(buf[:n]) != string(text(i, 1)) {
			t.Fatalf("file %d has %q, %v", i, buf[:n], err)
		}
		if a, err := f.Lookup(Node(MainView, RootIno), fmt.Sprint(i)); err != nil || a.ID != id || a.Mode != unix.S_IFREG|0o600+uint32(i%64) {
			t.Fatalf("file %d: %+v, %v", i, a, err)
		}
	}
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
