package journal

import (
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// flip changes one byte of a segment at a journal position.
func flip(t *testing.T, fs vfs.FS, segs []*segment, pos int64) {
	t.Helper()
	s := segs[segmentIndex(segs, pos)]
	f, err := fs.OpenFile(testDir+"/"+s.name, os.O_RDWR, 0)
	must.OK(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, pos-s.base)
	must.OK(t, err)
	b[0] ^= 0x40
	_, err = f.WriteAt(b, pos-s.base)
	must.OK(t, err)
}

// written returns a closed journal of many records in several segments.
func written(t *testing.T) (*vfstest.Mem, []item, []*segment) {
	t.Helper()
	fs := vfstest.NewMem()
	j := mustOpen(t, memOptions(fs))
	rnd := rand.New(rand.NewPCG(11, 1))
	var items []item
	for i := range 40 {
		it, err := appendItem(j, rnd, uint64(i), 4000)
		must.OK(t, err)
		items = append(items, it)
	}
	segs := j.segments()
	if len(segs) < 4 {
		t.Fatalf("only %d segments", len(segs))
	}
	must.OK(t, j.Close())
	return fs, items, segs
}

// openOrReplay returns the first error that opening and replaying meets.
func openOrReplay(o Options) ([]item, *Journal, error) {
	j, err := Open(testDir, o)
	if err != nil {
		return nil, nil, err
	}
	got, err := collect(j, 0)
	return got, j, err
}

func TestDamageIsReportedAndSalvaged(t *testing.T) {
	_, items, segs := written(t)
	for i, it := range items {
		start := it.dataPos - int64(it.headLen) - recordHeaderSize
		for what, pos := range map[string]int64{
			"length": start, "number": start + 9, "checksum": start + 29, "payload": start + recordHeaderSize + 3,
		} {
			fs, _, _ := written(t)
			flip(t, fs, segs, pos)
			_, j, err := openOrReplay(memOptions(fs))
			var d *DamageError
			if !errors.Is(err, errs.Damaged) || !errors.As(err, &d) {
				t.Fatalf("%s of record %d changed: %v", what, i, err)
			}
			if d.Pos != start || d.Segment != segs[segmentIndex(segs, start)].name || d.Offset != start-segs[segmentIndex(segs, start)].base {
				t.Fatalf("%s of record %d at %d changed, reported was %v", what, i, start, d)
			}
			if j != nil {
				_ = j.Close() // leaves the damage alone
			}
			o := memOptions(fs)
			o.Salvage = true
			got, j, err := openOrReplay(o)
			if err != nil {
				t.Fatalf("salvage: %v", err)
			}
			if len(got) != len(items)-1 {
				t.Fatalf("salvage of all but one of %d records gave %d", len(items), len(got))
			}
			samePrefix(t, got[:i], items[:i])
			samePrefix(t, got[i:], items[i+1:])
			if len(j.Damage()) == 0 {
				t.Fatal("what was skipped is not told")
			}
			_, err = j.Append(1, nil, []byte("more"), false)
			must.OK(t, err)
			must.OK(t, j.Close())
		}
	}
}

func TestDamagedSegmentHeader(t *testing.T) {
	_, _, segs := written(t)
	for i, s := range segs {
		fs, items, _ := written(t)
		flip(t, fs, segs, s.base+30)
		_, j, err := openOrReplay(memOptions(fs))
		var d *DamageError
		if !errors.As(err, &d) || d.Segment != s.name {
			t.Fatalf("header of segment %d changed: %v", i, err)
		}
		if j != nil {
			_ = j.Close() // leaves the damage alone
		}
		o := memOptions(fs)
		o.Salvage = true
		got, _, err := openOrReplay(o)
		if err != nil || len(got) == 0 || len(got) >= len(items) {
			t.Fatalf("salvage: %d of %d records, %v", len(got), len(items), err)
		}
	}
}

// What no sync ever covered may be missing in the middle after a power cut, and
// is no damage then.
func TestGapAfterCrashIsTheEnd(t *testing.T) {
	fs := vfstest.NewMem()
	j := mustOpen(t, memOptions(fs))
	rnd := rand.New(rand.NewPCG(2, 2))
	var items []item
	for i := range 6 {
		it, err := appendItem(j, rnd, uint64(i), 500)
		must.OK(t, err)
		items = append(items, it)
		if i == 2 {
			must.OK(t, j.Sync())
		}
	}
	flip(t, fs, j.segments(), items[4].dataPos)
	j = mustOpen(t, memOptions(fs)) // the process died, not the disk
	got, err := collect(j, 0)
	if err != nil || len(got) != 4 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	// The same number of bytes in the gap: the record behind it must not come back.
	size := len(items[4].payload)
	_, err = j.Append(items[4].typ, nil, make([]byte, size), false)
	must.OK(t, err)
	j = mustOpen(t, memOptions(fs))
	if got, err = collect(j, 0); err != nil || len(got) != 5 {
		t.Fatalf("%d records after the gap was filled, %v", len(got), err)
	}
}

func FuzzScan(f *testing.F) {
	h := header{base: 0, firstSeq: 1, nonce: 42}
	seg := h.encode()
	for i, payload := range []string{"", "one", "twentytwo bytes long..", "x"} {
		b := make([]byte, recordHeaderSize)
		putRecordHead(b, recordHead{length: uint32(len(payload)), typ: Type(i), seq: uint64(i + 1), payloadCRC: crc([]byte(payload))}, h.seed())
		b = append(b, payload...)
		for len(b)%recordAlign != 0 {
			b = append(b, 0)
		}
		seg = append(seg, b...)
	}
	f.Add(seg[segmentHeaderSize:])
	f.Add(seg[segmentHeaderSize : len(seg)-9])
	f.Add(append(make([]byte, 8192), seg[segmentHeaderSize+recordHeaderSize:]...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfstest.NewMem()
		file, err := vfs.Create(fs, "/s")
		must.OK(t, err)
		_, err = file.WriteAt(append(h.encode(), b...), 0)
		must.OK(t, err)
		s := &segment{f: file, hdr: h, seed: h.seed(), validHeader: true, name: "s"}
		limit := int64(segmentHeaderSize + len(b))
		sc := new(Journal).newScanner([]*segment{s}, 0, limit, false)
		last, seq := int64(0), uint64(0)
		for steps := 0; ; steps++ {
			if steps > len(b)+2 {
				t.Fatal("the scan does not end")
			}
			r, hole := sc.next()
			if hole != nil {
				if !sc.resync(hole) {
					return
				}
				continue
			}
			if r == nil {
				return
			}
			if r.pos < last || r.end() > limit || r.seq <= seq || crc(r.payload) != r.recordHead.payloadCRC {
				t.Fatalf("record at %d to %d of %d, number %d after %d", r.pos, r.end(), limit, r.seq, seq)
			}
			last, seq = r.end(), r.seq
		}
	})
}

// TestDamageBeforeBegin: what lies before the position that the owner needs the
// log from does not keep programs from opening it, also when no record says that it was
// durable.
func TestDamageBeforeBegin(t *testing.T) {
	fs := vfstest.NewMem()
	o := memOptions(fs)
	j := mustOpen(t, o)
	rnd := rand.New(rand.NewPCG(3, 4))
	var items []item
	for i := range 10 {
		it, err := appendItem(j, rnd, uint64(i), 500)
		must.OK(t, err)
		items = append(items, it)
	}
	must.OK(t, j.Sync())
	o.LowestPos = j.End()
	segs := j.segments()
	flip(t, fs, segs, items[4].dataPos)
	flip(t, fs, segs, items[6].dataPos-int64(items[6].headLen)-1)
	j, err := Open(testDir, o) // after a power cut
	must.OK(t, err)
	if j.End() != o.LowestPos || len(j.Damage()) == 0 {
		t.Errorf("it ends at %d, not at %d, with %v", j.End(), o.LowestPos, j.Damage())
	}
	_, err = appendItem(j, rnd, 10, 500)
	must.OK(t, err)
	if got, err := collect(j, o.LowestPos); err != nil || len(got) != 1 {
		t.Errorf("%d records behind: %v", len(got), err)
	}
	if err := j.ReadAt(make([]byte, 1), items[4].dataPos, items[4].payloadPos()); !errors.Is(err, errs.Damaged) {
		t.Errorf("reading what is damaged: %v", err)
	}
	readBack(t, j, items[:4])
	readBack(t, j, items[7:])
}
