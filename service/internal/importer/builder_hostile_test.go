package importer

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/archive"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
)

func tarOf(t *testing.T, w io.Writer, entries func(add func(kind byte, name, link, data string))) {
	t.Helper()
	a := tar.NewWriter(w)
	entries(func(kind byte, name, link, data string) {
		h := &tar.Header{Typeflag: kind, Name: name, Linkname: link, Mode: 0o755, Size: int64(len(data))}
		must.OK(t, a.WriteHeader(h))
		_, err := io.WriteString(a, data)
		must.OK(t, err)
	})
	must.OK(t, a.Close())
}

func TestStructureThatMakesNoSense(t *testing.T) {
	s := store(t)
	const dir, reg, sym, hard = tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeLink
	for name, entries := range map[string][][3]string{
		"through a link":       {{string(sym), "l", "/etc"}, {string(reg), "l/passwd", ""}},
		"directory over link":  {{string(sym), "l", "/etc"}, {string(dir), "l/", ""}},
		"through a file":       {{string(reg), "f", ""}, {string(reg), "f/x", ""}},
		"file over directory":  {{string(dir), "d/", ""}, {string(reg), "d", ""}},
		"hard link to nothing": {{string(hard), "h", "x"}},
		"hard link to later":   {{string(hard), "h", "x"}, {string(reg), "x", ""}},
		"hard link to dir":     {{string(dir), "d/", ""}, {string(hard), "h", "d"}},
		"hard link through":    {{string(dir), "d/", ""}, {string(reg), "d/f", ""}, {string(sym), "l", "d"}, {string(hard), "h", "l/f"}},
	} {
		var data bytes.Buffer
		tarOf(t, &data, func(add func(byte, string, string, string)) {
			for _, e := range entries {
				add(e[0][0], e[1], e[2], "")
			}
		})
		if err := archive.ReadTar(context.Background(), &data, builder(t, s).Add, stream.Options{}); !errors.Is(err, stream.ErrHostile) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestDirectoriesThatAreLeftOut(t *testing.T) {
	s := store(t)
	b := New(context.Background(), s.Source(), s.CAS(), Destination{DirMeta: stream.Meta{Mode: 0o750, UID: 7, GID: 8}})
	addFile(t, b, "deep/er/f", []byte("x"))
	st := finish(t, s, b)
	n, err := st.Resolve(s.Source(), "deep")
	if err != nil || n.Mode != unix.S_IFDIR|0o750 || n.UID != 7 || n.GID != 8 || n.Nlink != 3 {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestSealedOnTheWay: the resulting tree does not depend on how often it was sealed in between.
func TestSealedOnTheWay(t *testing.T) {
	s := store(t)
	build := func(limit int) string {
		b := builder(t, s)
		b.unsealedLimit = limit
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range 2000 {
			p := fmt.Sprintf("d%d/e%d/f%d", rnd.IntN(5), rnd.IntN(7), rnd.IntN(50))
			switch {
			case i > 100 && rnd.IntN(5) == 0:
				err := linkTo(b, fmt.Sprintf("h%d", rnd.IntN(100)), p)
				if err != nil && !errors.Is(err, stream.ErrHostile) {
					t.Fatal(err)
				}
			case rnd.IntN(10) == 0:
				must.OK(t, b.Add(stream.Entry{Path: fmt.Sprintf("d%d", rnd.IntN(5)), Meta: meta(unix.S_IFDIR | unix.S_IFDIR | 0o700)}))
			default:
				addFile(t, b, p, []byte(strings.Repeat("x", rnd.IntN(100))))
			}
		}
		id, _ := finish(t, s, b).ID()
		return id.String()
	}
	if whole, pieces := build(1<<30), build(10<<10); whole != pieces {
		t.Errorf("states %s and %s", whole, pieces)
	}
}

// heap runs do, and returns the largest memory in use that it has measured.
func heap(do func()) uint64 {
	var most atomic.Uint64
	done := make(chan struct{})
	go func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	do()
	close(done)
	return most.Load()
}

// TestABombTakesBoundedMemory: the memory for an archive of a few KB with very many entries is limited.
func TestABombTakesBoundedMemory(t *testing.T) {
	// With a memory limit, as in the daemon, garbage counts little.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(150 << 20))
	entries, limit := 10_000, uint64(100<<20)
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		entries, limit = 1_200_000, 300<<20
	}
	for name, path := range map[string]func(i int) string{
		"directories": func(i int) string { return fmt.Sprintf("%d/%d/%d/", i%100, i/100%100, i) },
		"deep":        func(i int) string { return fmt.Sprintf("%d/%s", i/1000, strings.Repeat("d/", i%1000)) },
		"long names":  func(i int) string { return fmt.Sprintf("%0250d/", i) },
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			defer s.BeginImport()()
			r, w := io.Pipe()
			go func() {
				z := gzip.NewWriter(w)
				tarOf(t, z, func(add func(byte, string, string, string)) {
					for i := range entries {
						add(tar.TypeDir, path(i), "", "")
					}
				})
				w.CloseWithError(z.Close())
			}()
			var err error
			most := heap(func() {
				b := New(context.Background(), s.Source(), s.CAS(), Destination{DirMeta: stream.Meta{Mode: 0o755}})
				if err = archive.ReadTar(context.Background(), r, b.Add, stream.Options{}); err == nil {
					_, err = b.Finish()
				}
			})
			must.OK(t, err)
			t.Logf("%d MiB", most>>20)
			if most > limit {
				t.Errorf("%d MiB of memory", most>>20)
			}
		})
	}
}
