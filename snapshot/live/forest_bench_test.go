package live

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
)

// BenchmarkCreateAndWrite makes small files, a hundred in a directory.
func BenchmarkCreateAndWrite(b *testing.B) {
	f := testForestIn(b, vfs.OS, b.TempDir())
	root, dir, data := Node(MainView, RootIno), NodeID(0), []byte("a small file\n")
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprintf("f%07d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(names) == 0 {
			a, err := f.Create(root, fmt.Sprintf("d%05d", i), NewNode{Mode: unix.S_IFDIR | 0o755})
			must.OK(b, err)
			dir = a.ID
		}
		a, err := f.Create(dir, names[i%len(names)], NewNode{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			_, err = f.Write(a.ID, data, 0, true)
		}
		must.OK(b, err)
	}
}

// BenchmarkReplay makes 50,000 small files again from the journal, as recovery does: two
// records each.
func BenchmarkReplay(b *testing.B) {
	const files = 50_000
	f := testForestIn(b, vfs.OS, b.TempDir())
	root := Node(MainView, RootIno)
	for i := range files {
		a, err := f.Create(root, fmt.Sprint(i), NewNode{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			_, err = f.Write(a.ID, []byte("a small file\n"), 0, true)
		}
		must.OK(b, err)
	}
	for b.Loop() {
		again := newForest(b, f.trees.log)
		_, err := again.Recovery.Replay(0, false, nil)
		must.OK(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/files/2, "ns/record")
}
