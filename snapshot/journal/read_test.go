package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/amberfs/amberfs/cas/vfs"
)

// TestReadChecks: no byte of a damaged record is served, whatever part of it is
// asked for, and all others are.
func TestReadChecks(t *testing.T) {
	for _, size := range []int{300, 40_000, 600_000} {
		o := memOptions(vfs.NewMem())
		o.SegmentSize, o.Run = 4<<20, Run{1}
		j := mustOpen(t, o)
		rnd := rand.New(rand.NewPCG(5, uint64(size)))
		var items []item
		for i := range 12 {
			it, err := appendItem(j, rnd, uint64(i), size)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, it)
		}
		readBack(t, j, items)
		for i, it := range items[:len(items)-1] { // the last might not have been written to its end
			data := it.payload[it.headLen:]
			start := it.dataPos - int64(it.headLen) - recordHeader
			for what, pos := range map[string]int64{"header": start + 2, "head": start + recordHeader, "last byte": it.dataPos + int64(len(data)) - 1} {
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
					err := fresh.ReadAt(p, other.dataPos+int64(at))
					var d *DamageError
					switch {
					case k == i && (!errors.As(err, &d) || d.Pos != start || !d.Lost()):
						t.Fatalf("%s of record %d of about %d bytes changed; reading it: %v", what, i, size, err)
					case k != i && (err != nil || !bytes.Equal(p, data[at:at+len(p)])):
						t.Fatalf("%s of record %d of about %d bytes changed; reading record %d: %v", what, i, size, k, err)
					}
				}
				var found []int64
				if err := fresh.Verify(func(d *DamageError, end int64) { found = append(found, d.Pos, end) }); err != nil {
					t.Fatal(err)
				}
				if len(found) != 2 || found[0] != start || found[1] != it.end {
					t.Fatalf("%s of record %d at %d to %d changed; Verify found %v", what, i, start, it.end, found)
				}
				if err := fresh.Close(); err != nil {
					t.Fatal(err)
				}
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

// TestReadSpans: several records are read with one call, the headers between
// them included, as tree does with what lies close together.
func TestReadSpans(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.SegmentSize = 1 << 20
	j := mustOpen(t, o)
	rnd := rand.New(rand.NewPCG(5, 6))
	var items []item
	for i := range 400 {
		it, err := appendItem(j, rnd, uint64(i), 900)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	all := make([]byte, j.End())
	f, err := o.FS.OpenFile(testDir+"/"+j.segments()[0].name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(all, 0); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		a, b := items[rnd.IntN(len(items))].dataPos, items[rnd.IntN(len(items))].end
		if a >= b {
			continue
		}
		p := make([]byte, b-a)
		if err := j.ReadAt(p, a); err != nil || !bytes.Equal(p, all[a:b]) {
			t.Fatalf("reading from %d to %d: %v", a, b, err)
		}
	}
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
		if _, err := j.Append(1, nil, []byte("no")); !errors.Is(err, ErrReadOnly) {
			t.Fatalf("append: %v", err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, dirBytes(t, fs)) {
			t.Fatalf("record %d damaged: the files have changed", i)
		}
	}
}

// dirBytes is all that is in the journal's directory.
func dirBytes(t *testing.T, fs vfs.FS) []byte {
	t.Helper()
	infos, err := fs.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, i := range infos {
		b, err := vfs.ReadFile(fs, testDir+"/"+i.Name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(append(all, i.Name...), 0), b...)
	}
	return all
}

// TestGapInTheSameRun: what was never synced and is gone is damage if no power
// cut can have taken it, and the end of the log if one may have.
func TestGapInTheSameRun(t *testing.T) {
	here, later := Run{1}, Run{2}
	for _, tc := range []struct {
		name          string
		wrote, opened Run
		damage        bool
	}{
		{"same run", here, here, true},
		{"another run", here, later, false},
		{"not known before", Run{}, here, false},
		{"not known now", here, Run{}, false},
		{"never known", Run{}, Run{}, false},
	} {
		o := memOptions(vfs.NewMem())
		o.Run = tc.wrote
		j := mustOpen(t, o)
		rnd := rand.New(rand.NewPCG(5, 7))
		var items []item
		for i := range 20 {
			it, err := appendItem(j, rnd, uint64(i), 3000)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, it)
		}
		flip(t, o.FS, j.segments(), items[7].dataPos-1)
		o.Run = tc.opened
		j, err := Open(testDir, o) // the other was killed
		if errors.Is(err, ErrDamaged) != tc.damage {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if tc.damage {
			continue
		}
		got, err := collect(j, 0)
		if err != nil || len(got) != 7 {
			t.Fatalf("%s: %d records, %v", tc.name, len(got), err)
		}
		samePrefix(t, got, items)
		// What is written now belongs to this run, whoever wrote before.
		var more []item
		for i := range 5 {
			it, err := appendItem(j, rnd, uint64(100+i), 300)
			if err != nil {
				t.Fatal(err)
			}
			more = append(more, it)
		}
		readBack(t, j, append(items[:7:7], more...))
		flip(t, o.FS, j.segments(), more[2].dataPos-1)
		if _, err := Open(testDir, o); errors.Is(err, ErrDamaged) != (tc.opened != Run{}) {
			t.Fatalf("%s, and on from there: %v", tc.name, err)
		}
	}
}

// TestCutShort: a file that lost its end is damage, wherever it was cut inside of
// a record; a journal that was closed, or ran out of disk, is none.
func TestCutShort(t *testing.T) {
	o := memOptions(vfs.NewMem())
	o.Run = Run{1}
	j := mustOpen(t, o)
	rnd := rand.New(rand.NewPCG(5, 8))
	var items []item
	for i := range 6 {
		it, err := appendItem(j, rnd, uint64(i), 2000)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	name := testDir + "/" + j.segments()[0].name
	all, err := vfs.ReadFile(o.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	for size := segmentHeader + recordHeader; size < int(items[5].end); size += 8 {
		o.FS = vfs.NewMem()
		if err := o.FS.MkdirAll(testDir, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := vfs.Create(o.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(all[:size], 0); err != nil {
			t.Fatal(err)
		}
		whole, edge := 0, size == segmentHeader
		for _, it := range items {
			if it.end <= int64(size) {
				whole++
			}
			edge = edge || it.end == int64(size)
		}
		o.Salvage = false
		j, err := Open(testDir, o)
		if errors.Is(err, ErrDamaged) == edge {
			t.Fatalf("cut to %d bytes, at the edge of a record: %v: %v", size, edge, err)
		}
		if err != nil {
			o.Salvage = true
			j = mustOpen(t, o)
			if len(j.Damage()) != 1 {
				t.Fatalf("cut to %d bytes, a salvage tells of %v", size, j.Damage())
			}
		}
		got, err := collect(j, 0)
		if err != nil || len(got) != whole {
			t.Fatalf("cut to %d bytes: %d records, want %d: %v", size, len(got), whole, err)
		}
		// Whatever size segments have from now on.
		if _, err := j.Append(1, nil, []byte("more")); err != nil {
			t.Fatal(err)
		}
		o.Salvage, o.SegmentSize = false, 8<<10
		mustOpen(t, o) // killed
		if err := mustOpen(t, o).Close(); err != nil {
			t.Fatal(err)
		}
		if err := mustOpen(t, o).Close(); err != nil {
			t.Fatal(err)
		}
		o.SegmentSize = 16 << 10
	}
}

// TestLostRegion: where the next header behind a lost region is takes long to
// find, and is looked for once, whoever asks for the bytes in between.
func TestLostRegion(t *testing.T) {
	disk := vfs.FailAt(vfs.NewMem(), -1, nil)
	o := memOptions(disk)
	o.SegmentSize, o.Run = 4<<20, Run{1}
	j := mustOpen(t, o)
	rnd := rand.New(rand.NewPCG(7, 7))
	var items []item
	for i := range 40 {
		it, err := appendItem(j, rnd, uint64(i), 60_000)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	from, to := items[10].dataPos, items[30].dataPos
	f, err := disk.OpenFile(testDir+"/"+j.segments()[0].name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, to-from), from); err != nil {
		t.Fatal(err)
	}
	check := func(j *Journal) {
		t.Helper()
		p, asked := make([]byte, 4096), int64(0)
		for pos := items[12].dataPos; pos+int64(len(p)) < to; pos += int64(len(p)) {
			before := disk.Count()
			var d *DamageError
			if err := j.ReadAt(p, pos); !errors.As(err, &d) || !d.Lost() {
				t.Fatalf("reading lost bytes at %d: %v", pos, err)
			}
			if n := disk.Count() - before; pos > items[12].dataPos {
				asked += n
			}
		}
		if asked > 0 {
			t.Errorf("the disk was asked %d times for what is known to be lost", asked)
		}
		for _, it := range append(items[:10:10], items[31:]...) {
			p := make([]byte, len(it.payload)-it.headLen)
			if err := j.ReadAt(p, it.dataPos); err != nil || !bytes.Equal(p, it.payload[it.headLen:]) {
				t.Fatalf("reading a good record at %d: %v", it.dataPos, err)
			}
		}
	}
	check(mustReadOnly(t, o)) // it meets the region while it makes its index
	j.recent = recentReads{}
	check(j)
	fresh := mustReadOnly(t, o)
	p := make([]byte, 1)
	if err := fresh.ReadAt(p, items[39].dataPos); err != nil {
		t.Fatal(err)
	}
	check(fresh) // it has come past it already
}
