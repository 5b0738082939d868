package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestReadChecks: no byte of a damaged record is served, whatever part of it is
// asked for, and all others are.
func TestReadChecks(t *testing.T) {
	for _, size := range []int{300, 40_000, 600_000} {
		o := memOptions(vfstest.NewMem())
		o.SegmentSize = 4 << 20
		j := mustOpen(t, o)
		rnd := rand.New(rand.NewPCG(5, uint64(size)))
		var items []item
		for i := range 12 {
			if i == 11 {
				mustSync(t, j) // so that no power cut can have taken those before
			}
			it, err := appendItem(j, rnd, uint64(i), size)
			must.OK(t, err)
			items = append(items, it)
		}
		readBack(t, j, items)
		for i, it := range items[:len(items)-1] { // the last might not have been written to its end
			data := it.payload[it.headLen:]
			start := it.dataPos - int64(it.headLen) - recordHeaderSize
			for what, pos := range map[string]int64{"header": start + 2, "head": start + recordHeaderSize, "last byte": it.dataPos + int64(len(data)) - 1} {
				if what == "last byte" && len(data) == 0 {
					continue
				}
				flip(t, o.FS, j.segments(), pos)
				fresh := mustReadOnly(t, o) // nothing known of the segment, nothing kept
				for k, other := range items {
					data := other.payload[other.headLen:]
					if len(data) == 0 {
						continue
					}
					p := make([]byte, 1+rnd.IntN(len(data)))
					at := rnd.IntN(len(data) - len(p) + 1)
					err := fresh.ReadAt(p, other.dataPos+int64(at), other.payloadPos())
					var d *DamageError
					switch {
					case k == i && (!errors.As(err, &d) || d.Pos != start || !d.Lost()):
						t.Fatalf("%s of record %d of about %d bytes changed; reading it: %v", what, i, size, err)
					case k != i && (err != nil || !bytes.Equal(p, data[at:at+len(p)])):
						t.Fatalf("%s of record %d of about %d bytes changed; reading record %d: %v", what, i, size, k, err)
					}
				}
				var found []int64
				must.OK(t, fresh.Verify(func(d *DamageError, end int64) { found = append(found, d.Pos, end) }))
				if len(found) != 2 || found[0] != start || found[1] != it.end {
					t.Fatalf("%s of record %d at %d to %d changed; Verify found %v", what, i, start, it.end, found)
				}
				must.OK(t, fresh.Close())
				flip(t, o.FS, j.segments(), pos)
			}
		}
		readBack(t, j, items)
	}
}

// mustReadOnly opens a journal that another may have open, too.
func mustReadOnly(t *testing.T, o Options) *Journal {
	t.Helper()
	o.ReadOnly, o.Salvage = true, true
	return mustOpen(t, o)
}

func TestReadOnlyChangesNothing(t *testing.T) {
	_, items, _ := written(t)
	for i, it := range items {
		fs, _, segs := written(t)
		flip(t, fs, segs, it.dataPos-1)
		before := dirBytes(t, fs)
		o := memOptions(fs)
		o.ReadOnly, o.Salvage = true, true
		j := mustOpen(t, o)
		got, err := collect(j, 0)
		if err != nil || len(got) != len(items)-1 {
			t.Fatalf("record %d damaged: %d of %d records, %v", i, len(got), len(items), err)
		}
		if _, err := j.Append(1, nil, []byte("no"), false); !errors.Is(err, errs.ReadOnly) {
			t.Fatalf("append: %v", err)
		}
		must.OK(t, j.Close())
		if !bytes.Equal(before, dirBytes(t, fs)) {
			t.Fatalf("record %d damaged: the files have changed", i)
		}
	}
}

// dirBytes is all that is in the journal's directory.
func dirBytes(t *testing.T, fs vfs.FS) []byte {
	t.Helper()
	infos, err := fs.ReadDir(testDir)
	must.OK(t, err)
	var all []byte
	for _, i := range infos {
		b, err := vfs.ReadFile(fs, testDir+"/"+i.Name)
		must.OK(t, err)
		all = append(append(append(all, i.Name...), 0), b...)
	}
	return all
}
