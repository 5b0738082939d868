package live

import (
	"runtime"
	"testing"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/content"
)

// TestPostponedVersionsGo: a file that is written over for ever, and postponed each time,
// keeps none of the versions before in memory.
func TestPostponedVersionsGo(t *testing.T) {
	f := testForestIn(t, vfs.OS, t.TempDir())
	a, err := f.Create(Node(MainView, RootIno), "f", Create{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	var versions []weak.Pointer[content.Content]
	for range 3 {
		from := f.log.End()
		for off := int64(0); off < 2<<20; off += 1 << 20 {
			if _, err := f.Write(a.ID, make([]byte, 1<<20), off, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Update(true, func(tx *Tx) error {
			young := tx.Young(MainView, from)
			if len(young) != 1 {
				t.Fatalf("%d files are young", len(young))
			}
			versions = append(versions, weak.Make(young[0].c))
			_, err := tx.CapturePostponing(MainView, young)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	for i, v := range versions[:2] {
		if v.Value() != nil {
			t.Errorf("version %d is still there", i)
		}
	}
	runtime.KeepAlive(f)
}
