package index

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestTablesAreFew: however many keys come, few tables lie side by side, and no flush writes more
// than a part of the index. What was deleted or replaced stays so.
func TestTablesAreFew(t *testing.T) {
	const batches, keys = 90, 10
	dir := t.TempDir()
	x, err := Open(dir, slog.New(slog.DiscardHandler), false)
	must.OK(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	want := map[uint64]uint64{} // and 0 is deleted
	value := func(v uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 100<<10), v) }
	check := func() {
		t.Helper()
		for k, v := range want {
			got, ok, err := x.Get(binary.BigEndian.AppendUint64(nil, k))
			if err != nil || ok != (v > 0) || ok && !bytes.Equal(got, value(v)) {
				t.Fatalf("key %d, which is to be %d: %v, %v", k, v, ok, err)
			}
		}
	}
	room := func(n int64) error {
		if n > 3*baseLevelSize {
			t.Errorf("a flush needs %d bytes", n)
		}
		return nil
	}
	for i := range uint64(batches) {
		b := x.Batch(nil)
		for range keys {
			k := r.Uint64N(1000)
			if want[k] = i + 1; i%5 == 4 {
				want[k] = 0
				b.Delete(binary.BigEndian.AppendUint64(nil, k))
				continue
			}
			b.Put(binary.BigEndian.AppendUint64(nil, k), value(i+1))
		}
		must.OK(t, b.Commit())
		must.OK(t, x.Compact(false, room))
		if _, fresh := x.Tables(); fresh > maxLevel0Tables {
			t.Fatalf("%d tables side by side", fresh)
		}
	}
	check()
	levels := 0
	for _, l := range x.db.Levels() {
		if l.Level > 0 && l.NumTables > 0 {
			levels++
		}
	}
	if levels < 2 {
		t.Errorf("all tables are in %d level", levels)
	}
	must.OK(t, x.Close())
	x, err = Open(dir, slog.New(slog.DiscardHandler), false)
	must.OK(t, err)
	check()
	must.OK(t, x.Compact(true, func(int64) error { return nil }))
	check()
	must.OK(t, x.Close())
}
