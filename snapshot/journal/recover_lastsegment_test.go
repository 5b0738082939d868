package journal

import (
	"errors"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// spoil is what may happen to the file of a segment so that nothing of its header
// is left.
var spoil = map[string]func(t *testing.T, fs vfs.FS, name string){
	"removed": func(t *testing.T, fs vfs.FS, name string) {
		must.OK(t, fs.Remove(name))
	},
	"emptied": func(t *testing.T, fs vfs.FS, name string) { truncate(t, fs, name, 0) },
	"cut":     func(t *testing.T, fs vfs.FS, name string) { truncate(t, fs, name, 100) },
	"zeroed": func(t *testing.T, fs vfs.FS, name string) {
		f, err := vfs.Create(fs, name)
		must.OK(t, err)
		defer f.Close()
		must.OK(t, f.Truncate(16<<10))
	},
}

func truncate(t *testing.T, fs vfs.FS, name string, n int64) {
	t.Helper()
	f, err := fs.OpenFile(name, 2, 0)
	must.OK(t, err)
	defer f.Close()
	must.OK(t, f.Truncate(n))
}

// A journal of one segment that its owner knows to begin there is damaged when
// the header is gone, though it does not end before what the owner knows.
func TestOnlySegmentIsMissed(t *testing.T) {
	for what, do := range spoil {
		fs := vfstest.NewMem()
		o := memOptions(fs)
		j := mustOpen(t, o)
		for range 100 {
			_, err := j.Append(1, nil, make([]byte, 300), false)
			must.OK(t, err)
		}
		must.OK(t, j.Shrink(j.End()))
		pos := j.segments()[0].base
		if pos == 0 || len(j.segments()) != 1 {
			t.Fatalf("%d segments from %d on", len(j.segments()), pos)
		}
		_, err := j.Append(1, nil, []byte("lost"), false)
		must.OK(t, err)
		do(t, fs, testDir+"/"+j.segments()[0].name)
		o.LowestPos = pos
		if _, err := Open(testDir, o); !errors.Is(err, errs.Damaged) {
			t.Fatalf("%s: opening says %v", what, err)
		}
		o.Salvage = true
		s, err := Open(testDir, o)
		if err != nil || len(s.Damage()) == 0 {
			t.Fatalf("%s: %v", what, err)
		}
		o.Salvage = false
		if _, err := Open(testDir, o); err != nil {
			t.Fatalf("%s: after a salvage: %v", what, err)
		}
	}
}
