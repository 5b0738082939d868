package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// literatureRows are those of YoloFS (SOSP 2026): table 6, figures 9 and 10.
var literatureRows = []row{
	{name: "fio", what: "256 MiB of a file of 1 GB by 4 KiB, in order, cold", unit: "MB/s", where: inLiterature, reach: "≥ 0.8 × plain, random ≥ 0.5 ×, writes ≥ 0.25 ×", how: fioHow, run: cold(gigabyte(incompressible), fio)},
	{name: "fio-halves", what: "the same of a file that compresses by half", unit: "MB/s", where: inLiterature, reach: "≥ 0.8 × plain", how: coldHow(orderHow), run: cold(gigabyte(halves), readInOrder)},
	{name: "files", what: "create each of 10,000 files", unit: "µs", where: inLiterature, reach: "after a snapshot ≤ 1.15 × before it", run: files, how: filesHow},
	{name: "hundred", what: "100 snapshots, 10 files of 1,000 overwritten before each: the last 10", unit: "µs", where: keepsCalls, reach: "≤ 1.5 × the first 10", run: hundred, how: callHow},
}

// inLiterature are the places that all of them are compared with.
func inLiterature(p place) bool { return p.kind == floor || playsDay(p) && p.kind != git }

func keepsCalls(p place) bool { return keepsStates(p) && p.kind != git }

const fioPart = 256 // MiB

const orderHow = "64 × 1,024 × read(4096) in order, three times"

func fioHow(p place) string {
	return coldHow(orderHow + "; drop_caches; 16 × 1,024 × read(4096) anywhere in 256 MiB, twice; 64 × 1,024 × pwrite(4096) in a new file, in order and anywhere")(p)
}

func incompressible([]byte) {}

// halves makes bytes compress by half, as those of programs do.
func halves(p []byte) {
	for i := 1; i < len(p); i += 2 {
		p[i] = 0
	}
}

// gigabyte writes a file of 1 GB whose parts all differ.
func gigabyte(kind func([]byte)) func(*work, string) error {
	return func(w *work, dir string) error {
		f, err := os.Create(filepath.Join(dir, "large"))
		if err != nil {
			return err
		}
		defer f.Close()
		return w.b.loop(w.n(1000), func(int) error {
			data := noise(1e6)
			kind(data)
			_, err := f.Write(data)
			return err
		})
	}
}

// A blockFile is the file that is read by 4 KiB, as the program fio does with ioengine=psync.
type blockFile struct {
	*os.File
	w   *work
	buf []byte
}

func openBlocks(w *work, dir string) (*blockFile, error) {
	f, err := os.Open(filepath.Join(dir, "large"))
	return &blockFile{f, w, make([]byte, len(block))}, err
}

func (f *blockFile) read(at int) error {
	_, err := f.ReadAt(f.buf, int64(at)*int64(len(block)))
	return err
}

// inOrder reads the first blocks in order, cold and then warm.
func (f *blockFile) inOrder() (cold float64, err error) {
	n, order := f.w.n(fioPart)<<8, func(i int) int { return i }
	if cold, err = f.w.blocks(n, order, f.read); err != nil {
		return 0, err
	}
	for _, warm := range []string{"the same warm", "the same once more"} {
		err = errors.Join(err, f.w.alsoBlocks(warm, n, order, f.read))
	}
	return cold, err
}

func readInOrder(w *work, dir string) (float64, error) {
	f, err := openBlocks(w, dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.inOrder()
}

// fio reads in order and anywhere, and writes another file.
func fio(w *work, dir string) (float64, error) {
	f, err := openBlocks(w, dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	first, err := f.inOrder()
	if err != nil {
		return 0, err
	}

	n := w.n(fioPart) << 8
	anywhere := rand.New(rand.NewPCG(1, uint64(w.round))).Perm(n)
	random := func(i int) int { return anywhere[i] }
	if err := dropCaches("3"); err != nil {
		return 0, err
	}
	for _, again := range []string{"cold", "warm"} {
		if err := w.alsoBlocks("64 MiB by 4 KiB, random, "+again, n/4, random, f.read); err != nil {
			return 0, err
		}
	}

	to, err := os.Create(filepath.Join(dir, "written"))
	if err != nil {
		return 0, err
	}
	defer to.Close()
	bytes := noise(len(block))
	write := func(at int) error { _, err := to.WriteAt(bytes, int64(at)*int64(len(block))); return err }
	return first, errors.Join(
		w.alsoBlocks("256 MiB written by 4 KiB, in order", n, func(i int) int { return i }, write),
		w.alsoBlocks("256 MiB overwritten by 4 KiB, random", n, random, write))
}

// blocks has n blocks read or written, and returns MB/s.
func (w *work) blocks(n int, order func(int) int, do func(at int) error) (float64, error) {
	took, err := w.timed(n, func() error { return w.b.loop(n, func(i int) error { return do(order(i)) }) })
	return float64(n*len(block)) / 1e6 / took.Seconds(), err
}

func (w *work) alsoBlocks(name string, n int, order func(int) int, do func(at int) error) error {
	speed, err := w.blocks(n, order, do)
	w.also(name, "MB/s", speed)
	return err
}

func filesHow(p place) string {
	how := "10,000 × open(O_CREAT), write(4096), close; open(O_APPEND), write(4096), close; rename; unlink; with new files, before each: "
	if keepsCalls(p) {
		return how + callHow(p)
	}
	return how + "nothing"
}

// A tree in which a snapshot can be taken; without snapshots, a directory.
func (w *work) ownTree() (root string, capture func(name string) error, end func() error, err error) {
	if !keepsCalls(w.place) {
		return w.dir, func(string) error { return nil }, func() error { return nil }, nil
	}
	h, err := openHistory(w.b, w.place, filepath.Join(w.b.base, fmt.Sprintf("tree-%d", w.b.serial)), w.dir)
	if err != nil {
		return "", nil, nil, err
	}
	w.look(h)
	return h.root(), h.captureCall, h.close, nil
}

// files are created, appended to, renamed and removed, then again with a snapshot before each.
func files(w *work) (first float64, err error) {
	root, capture, end, err := w.ownTree()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()

	n := w.n(10_000)
	for turn, after := range []string{"", " after a snapshot"} {
		dir := filepath.Join(root, fmt.Sprint("d", turn))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return 0, err
		}
		for i, step := range []struct {
			name string
			do   func(i int) error
		}{
			{"create", func(i int) error { return createOne(name(dir, i)) }},
			{"append 4 KiB", func(i int) error { return appendOne(name(dir, i)) }},
			{"rename", func(i int) error { return unix.Rename(name(dir, i), name(dir, i)+"-renamed") }},
			{"unlink", func(i int) error { return unix.Unlink(name(dir, i) + "-renamed") }},
		} {
			if turn > 0 {
				if err := capture(fmt.Sprint("s", i)); err != nil {
					return 0, err
				}
			}
			took, err := w.each(n, step.do)
			if err != nil {
				return 0, err
			}
			if turn+i == 0 {
				first = took
			} else {
				w.also(step.name+after, "µs", took)
			}
		}
	}
	return first, nil
}

func appendOne(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(block)
	return errors.Join(err, f.Close())
}

// hundred snapshots of 1,000 files, of which ten are overwritten before each.
func hundred(w *work) (last float64, err error) {
	root, capture, end, err := w.ownTree()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end()) }()

	if err := fill(root, 1000); err != nil {
		return 0, err
	}
	var snapshots, writes []float64
	_, err = w.timed(100, func() error {
		return w.b.loop(100, func(i int) error {
			start := time.Now()
			for j := range 10 {
				if err := os.WriteFile(name(root, (10*i+j)%500), noise(len(block)), 0o644); err != nil {
					return err
				}
			}
			writes = append(writes, us(start)/10)

			start = time.Now()
			err := capture(fmt.Sprint("s", i))
			snapshots = append(snapshots, us(start))
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	buf := make([]byte, len(block))
	reads, err := w.each(500, func(i int) error { return readOne(name(root, 500+i), buf) })
	if err != nil {
		return 0, err
	}
	w.also("a snapshot among the first 10", "µs", median(snapshots[:10]))
	w.also("an overwrite before one of the first 10", "µs", median(writes[:10]))
	w.also("an overwrite before one of the last 10", "µs", median(writes[90:]))
	w.also("read of another file after the last", "µs", reads)
	return median(snapshots[90:]), nil
}

func us(since time.Time) float64 { return float64(time.Since(since).Nanoseconds()) / 1e3 }
