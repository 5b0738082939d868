// Package damage_test damages stores: bits flipped, files cut short, emptied or
// removed, in packs, manifest, journal and index. Nothing may crash, no byte may be
// served that was not written, `amberfs verify` names what is touched, and after
// `amberfs verify --repair` the store mounts and works with what is left.
//
//	DAMAGES=500 go test ./tests/damage -timeout 0 -v
//	SEED=…                                             an earlier run again
package damage_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// Half of the stores were unmounted, half have lost their daemon to kill -9 and
// hold much of their content in the journal alone.
func TestRandomDamage(t *testing.T) {
	seed := harness.NumberFromEnv(t, "SEED", 1)
	n := harness.Count(t, "DAMAGES", 8, 500)
	t.Logf("SEED=%d, %d damages", seed, n)
	for stream, name := range []string{"unmounted", "killed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(stream)))
			o := makeOriginal(t, name == "killed")
			for i := range n / 2 {
				d := draw(t, rng, o.store)
				t.Run(fmt.Sprintf("%d-%s", i, d), func(t *testing.T) {
					t.Parallel()
					o.suffer(t, d)
				})
			}
		})
	}
}

// An injury is one way in which a store is damaged.
type injury struct {
	file  string // relative to the store
	what  string
	off   int64
	bytes int64
	bit   int
	index bool // the index is gone, too
}

func (d injury) String() string {
	also := ""
	if d.index {
		also = "_and_index"
	}
	return fmt.Sprintf("%s_%s_%d%s", strings.ReplaceAll(d.file, "/", "_"), d.what, d.off, also)
}

// part is which part of the store is hurt.
func (d injury) part() string { part, _, _ := strings.Cut(d.file, "/"); return part }

// draw chooses one of the store's files and what happens to it.
func draw(t *testing.T, rng *rand.Rand, store string) injury {
	t.Helper()
	part := []string{"packs/*", "packs/*", "manifest*", "journal/*", "index/*"}[rng.IntN(5)]
	all, err := filepath.Glob(filepath.Join(store, part))
	must.OK(t, err)
	var files []string
	for _, name := range all {
		if base := filepath.Base(name); base == "reserve" || base == "LOCK" {
			continue // they hold nothing
		}
		if i, err := os.Stat(name); err == nil && i.Size() > 0 {
			files = append(files, name)
		}
	}
	file, err := filepath.Rel(store, files[rng.IntN(len(files))])
	must.OK(t, err)
	d := injury{file: file}
	// What lies beyond the data of a file that was preallocated is of no interest.
	end := dataEnd(t, filepath.Join(store, d.file))
	d.off, d.bit = rng.Int64N(max(end, 1)), rng.IntN(8)
	d.what = []string{"flip", "flip", "flip", "cut", "remove", "zero", "noise"}[rng.IntN(7)]
	d.bytes = 1 + rng.Int64N(8192)
	d.index = rng.IntN(4) == 0
	return d
}

func dataEnd(t *testing.T, path string) int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	must.OK(t, err)
	return int64(len(strings.TrimRight(string(b), "\x00")))
}

func (d injury) do(t *testing.T, store string, rng *rand.Rand) {
	t.Helper()
	path := filepath.Join(store, d.file)
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	if d.index {
		must(os.RemoveAll(filepath.Join(store, "index")))
		if d.part() == "index" {
			return
		}
	}
	switch d.what {
	case "remove":
		must(os.Remove(path))
		return
	case "cut":
		must(os.Truncate(path, d.off))
		return
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(err)
	defer f.Close()
	b := make([]byte, d.bytes)
	if d.what == "flip" {
		b = b[:1]
	}
	n, _ := f.ReadAt(b, d.off) // less at the end
	b = b[:n]
	switch d.what {
	case "flip":
		for i := range b {
			b[i] ^= 1 << d.bit
		}
	case "zero":
		clear(b)
	case "noise":
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	_, err = f.WriteAt(b, d.off)
	must(err)
}
