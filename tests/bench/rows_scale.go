package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// scaleRows are what is done rarely, with much more of everything than usual.
func scaleRows() (all []row) {
	for _, n := range []int{100, 1000, 10_000} {
		all = append(all,
			row{name: fmt.Sprintf("scale-forks-%d", n), what: fmt.Sprintf("%d forks of 100000 files, each written to once", n), unit: "ms",
				alone: forks(n, forkTimes), series: "work by forks", x: float64(n), reach: "flat"},
			row{name: fmt.Sprintf("scale-forks-memory-%d", n), what: fmt.Sprintf("resident memory for each of %d forks", n), unit: "bytes",
				alone: forks(n, forkMemory), series: "memory by forks", x: float64(n), reach: "flat"})
	}
	for _, n := range []int{1000, 10_000, 100_000} {
		all = append(all, row{name: fmt.Sprintf("scale-snapshots-%d", n), what: fmt.Sprintf("%d snapshots", n), unit: "ms",
			alone: snapshots(n), series: "work by snapshots", x: float64(n), reach: "linear"})
	}
	for _, n := range []int{10, 100, 1000} {
		all = append(all, row{name: fmt.Sprintf("scale-writers-%d", n), what: fmt.Sprintf("%d processes, creating 20000 files in forks or directories of their own", n),
			unit: "files/s", higher: true, where: func(p place) bool { return p.kind == amber || p.kind == plain }, run: manyWriters(n), once: true,
			series: "creates by writers", x: float64(n), reach: "flat"})
	}
	for _, gb := range []int{1, 10, 100} {
		all = append(all, row{name: fmt.Sprintf("scale-large-%d", gb), what: fmt.Sprintf("a sparse file of %d GB with 1 MiB in each 25 MB, changed in the middle", gb),
			unit: "ms", alone: largeSparse(gb), reach: "flat but for the first seal", series: "work by GB of a file", x: float64(gb)})
	}
	for _, mb := range []int{100, 1000, 10_000} {
		all = append(all, row{name: fmt.Sprintf("scale-import-%d", mb), what: fmt.Sprintf("import of an archive of %d MB in files of 10 kB", mb),
			unit: "MB/s", higher: true, where: onlyAmber, run: largeImport(mb), once: true, series: "import by MB", x: float64(mb), reach: "flat"})
	}
	return all
}

// alone makes a history for a row without places.
func (b *bench) alone(do func(h *amberHistory) ([]result, error)) (all []result, err error) {
	h, err := newAmberHistory(b, filepath.Join(b.base, "scale"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	return do(h)
}

// took is how many ms something took, as a figure.
func took(what string, do func() error) (result, error) {
	start := time.Now()
	err := do()
	f := ms(time.Since(start))
	return result{Place: what, Median: f, All: []float64{f}}, err
}

// A step is one thing that is timed.
type step struct {
	what string
	do   func() error
}

// timeAll does one after the other. A command that the binary does not know is
// left out: -bin may be an older one.
func timeAll(steps ...step) (all []result, err error) {
	const usage = 2
	for _, s := range steps {
		r, err := took(s.what, s.do)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == usage {
			fmt.Fprintf(os.Stderr, "without %s: %v\n", s.what, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.what, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func (h *amberHistory) resident() (float64, error) {
	c, err := h.place.counters()
	return c["process_resident_memory_bytes"], err
}

// forks makes n forks of a tree and writes one file in each.
func forks(n int, do func(h *amberHistory, n int, grew float64) ([]result, error)) func(*bench) ([]result, error) {
	return func(b *bench) ([]result, error) {
		return b.alone(func(h *amberHistory) ([]result, error) {
			if err := h.load(b.n(100_000), pathOf); err != nil {
				return nil, err
			}
			if _, err := h.reopen(); err != nil { // the import has left garbage in memory
				return nil, err
			}
			before, err := h.resident()
			if err != nil {
				return nil, err
			}
			n := b.n(n)
			err = b.loop(n, func(i int) error {
				at := filepath.Join(h.root(), ".forks", fmt.Sprintf("f%d", i))
				return errors.Join(unix.Mkdir(at, 0o755), os.WriteFile(filepath.Join(at, pathOf(0)), contentOf(i), 0o644))
			})
			if err != nil {
				return nil, err
			}
			after, err := h.resident()
			if err != nil {
				return nil, err
			}
			return do(h, n, after-before)
		})
	}
}

func forkTimes(h *amberHistory, _ int, _ float64) ([]result, error) {
	return timeAll(
		step{"capture", func() error { return h.capture("v") }},
		step{"fork", func() error { return unix.Mkdir(filepath.Join(h.root(), ".forks", "one-more"), 0o755) }},
		step{"ls .forks", func() error { _, err := os.ReadDir(filepath.Join(h.root(), ".forks")); return err }},
		step{"umount", h.place.close},
		step{"mount", func() error { return h.b.mount(&h.place, h.store) }})
}

func forkMemory(_ *amberHistory, n int, grew float64) ([]result, error) {
	f := grew / float64(n)
	return []result{{Place: "amberfs", Median: f, All: []float64{f}}}, nil
}

// snapshots makes n of them and does what gets slower with their number.
func snapshots(n int) func(*bench) ([]result, error) {
	return func(b *bench) ([]result, error) {
		return b.alone(func(h *amberHistory) ([]result, error) {
			err := b.loop(b.n(n), func(i int) error {
				return errors.Join(os.WriteFile(filepath.Join(h.root(), "f"), contentOf(i), 0o644), h.capture(fmt.Sprintf("s%d", i)))
			})
			if err != nil {
				return nil, err
			}
			if err := h.run("snapshot", "last"); err != nil { // all are sealed after it
				return nil, err
			}
			return timeAll(
				step{"capture", func() error { return h.capture("one-more") }},
				step{"ls", func() error { return command("ls", filepath.Join(h.root(), ".snapshots")) }},
				step{"list", func() error { return h.run("list") }},
				step{"list -n 20", func() error { return h.run("list", "-n", "20") }},
				step{"du", func() error { return h.run("du") }},
				step{"gc", func() error { return h.run("gc") }},
				step{"umount", h.place.close},
				step{"mount", func() error { return h.b.mount(&h.place, h.store) }})
		})
	}
}

// manyWriters starts many processes at once.
func manyWriters(processes int) func(w *work) (float64, error) {
	const total = 20_000
	return func(w *work) (float64, error) {
		n, root := w.n(processes), w.dir
		files := total / processes
		if w.place.kind == amber {
			h, err := newAmberHistory(w.b, filepath.Join(w.b.base, "writers"))
			if err != nil {
				return 0, err
			}
			defer h.close()
			w.look(h)
			root = filepath.Join(h.root(), ".forks")
		}
		for i := range n {
			if err := unix.Mkdir(filepath.Join(root, fmt.Sprintf("f%d", i)), 0o755); err != nil {
				return 0, err
			}
		}
		spent, err := w.timed(n*files, func() error {
			var g errgroup.Group
			for i := range n {
				g.Go(func() error {
					return commandIn(w.b.ctx, filepath.Join(root, fmt.Sprintf("f%d", i)), nil,
						"sh", "-ec", fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo $i > new$i; i=$((i + 1)); done", files))
				})
			}
			return g.Wait()
		})
		return float64(n*files) / spent.Seconds(), err
	}
}

// largeSparse has 40 pieces of 1 MiB in each GB of a file.
func largeSparse(gb int) func(b *bench) ([]result, error) {
	const piece = 25_000_000
	return func(b *bench) ([]result, error) {
		return b.alone(func(h *amberHistory) ([]result, error) {
			f, err := os.Create(filepath.Join(h.root(), "large"))
			if err != nil {
				return nil, err
			}
			defer f.Close()
			pieces := b.n(gb * 1_000_000_000 / piece)
			size := int64(pieces) * piece
			if err := f.Truncate(size); err != nil {
				return nil, err
			}
			buf := noise(1 << 20)
			err = b.loop(pieces, func(i int) error {
				copy(buf, contentOf(i))
				_, err := f.WriteAt(buf, int64(i)*piece)
				return err
			})
			if err != nil {
				return nil, err
			}
			change := func() error { _, err := f.WriteAt([]byte("changed"), size/2); return err }
			return timeAll(
				step{"capture", func() error { return h.capture("v") }},
				step{"seal", func() error { return h.run("snapshot", "sealed") }},
				step{"change", change},
				step{"capture again", func() error { return h.capture("w") }},
				step{"seal again", func() error { return h.run("snapshot", "sealed-again") }},
				step{"restore", func() error { return h.restore("v") }})
		})
	}
}

// largeImport sends an archive of files of 10 kB, all different.
func largeImport(mb int) func(w *work) (float64, error) {
	return func(w *work) (f float64, err error) {
		h, err := newAmberHistory(w.b, filepath.Join(w.b.base, "import"))
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		w.look(h)
		const size = 10_000
		n := w.n(mb * 1_000_000 / size)
		r, out := io.Pipe()
		cmd := exec.CommandContext(w.b.ctx, w.b.bin, "-C", h.root(), "import", "--tar", "-")
		cmd.Stdin = r
		go func() { out.CloseWithError(writeLargeTar(out, n, size)) }()
		spent, err := w.timed(n, func() error {
			text, err := cmd.CombinedOutput()
			if err != nil {
				r.Close()
				return fmt.Errorf("import: %w: %s", err, text)
			}
			return nil
		})
		return float64(n) * size / 1e6 / spent.Seconds(), err
	}
}

func writeLargeTar(to io.Writer, n, size int) error {
	buf := bufio.NewWriterSize(to, 1<<20)
	t := tar.NewWriter(buf)
	// Source-like: it compresses, and no two files are alike.
	data := []byte(strings.Repeat("func (r *row) value(i int) (float64, error) { return r.all[i], nil }\n", size/69+1))[:size]
	for i := range n {
		copy(data[i%(size-100):], contentOf(i))
		h := &tar.Header{Name: pathOf(i), Mode: 0o644, Size: int64(size), Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), buf.Flush())
}
