package snapshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/tests/must"
)

// BenchmarkMount opens a store with the records of many snapshots (SNAPSHOTS, else 1,000), whose trees are
// missing. With MANY=DIR the store is in DIR and stays.
func BenchmarkMount(b *testing.B) {
	n, _ := strconv.Atoi(cmp.Or(os.Getenv("SNAPSHOTS"), "1000"))
	dir := filepath.Join(cmp.Or(os.Getenv("MANY"), b.TempDir()), "records")
	if _, err := os.Stat(dir); err != nil {
		makeRecords(b, dir, n)
	}

	debug.SetGCPercent(50) // as the daemon
	for b.Loop() {
		before, spent := resident(b), processors(b)
		s, err := Open(dir, Options{})
		must.OK(b, err)
		b.StopTimer()
		spent = processors(b) - spent
		at := resident(b)
		debug.FreeOSMemory()
		b.Logf("processors %v; resident memory before %d MB, after %d MB, without garbage %d MB; %d snapshots",
			spent, before>>20, at>>20, resident(b)>>20, s.Main().Status().Snapshots)
		must.OK(b, s.Close())
		b.StartTimer()
	}
}

// makeRecords makes a store with one snapshot, and adds n records like that of the snapshot.
func makeRecords(b *testing.B, dir string, n int) {
	s, err := Open(dir, Options{})
	must.OK(b, err)
	first := capture(b, s.Main(), CaptureOptions{})
	must.OK(b, s.Close())

	c, err := cas.Open(dir, cas.Options{})
	must.OK(b, err)
	var r catalogue.SnapshotRecord
	read := func(key string, v any) {
		value, err := c.GetMeta(key)
		must.OK(b, err)
		must.OK(b, json.Unmarshal(value, v))
	}
	var ops []cas.MetaOp
	write := func(key string, v any) {
		value, err := json.Marshal(v)
		must.OK(b, err)
		ops = append(ops, cas.MetaOp{Key: key, Value: value})
	}

	read(catalogue.Key(catalogue.SnapshotPrefix, first.View), &r)
	noise := rand.NewChaCha8([32]byte{})
	for range n {
		var id, set cas.Hash
		_, _ = noise.Read(id[:])
		_, _ = noise.Read(set[:])
		r.View++
		r.Seq++
		r.Parent, r.Name, r.ID = r.Name, fmt.Sprint("cp-", r.Seq), id.String()
		r.Created = r.Created.Add(12345678)
		r.Actors, r.ActorSets = []string{"agent"}, []cas.Hash{set}
		write(catalogue.Key(catalogue.SnapshotPrefix, r.View), r)
	}

	var at catalogue.StoreRecord
	read(catalogue.StoreKey, &at)
	at.NextView = r.View + 1
	write(catalogue.StoreKey, at)
	must.OK(b, c.Commit(ops...))
	must.OK(b, c.Close())
}
