package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// span is a time in ns from an arbitrary instant.
type span struct{ from, to int64 }

// underLoad captures again and again while eight writers create files, each in
// a directory of its own, and returns when captures and writes began and ended.
// In the plain directory a capture is to wait for as long as one would take.
func underLoad(w *work) (captures []span, writes [][]span, err error) {
	root, capture := w.dir, func(string) error { time.Sleep(400 * time.Microsecond); return nil }
	if w.place.kind != plain {
		h, err := openHistory(w.b, w.place, filepath.Join(w.b.base, fmt.Sprintf("load-%d", w.b.serial)), w.dir)
		if err != nil {
			return nil, nil, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		root, capture = h.root(), h.capture
	}
	epoch := time.Now()
	timed := func(do func() error) (s span, err error) {
		s.from = time.Since(epoch).Nanoseconds()
		err = do()
		s.to = time.Since(epoch).Nanoseconds()
		return s, err
	}
	const writers = 8
	// Else what is measured is how they wait for each other in Go's scheduler.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(writers + 2))
	writes = make([][]span, writers)
	var stop atomic.Bool
	var g errgroup.Group
	for i := range writers {
		dir := filepath.Join(root, fmt.Sprintf("writer%d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, nil, err
		}
		g.Go(func() error {
			for j := 0; !stop.Load(); j++ {
				s, err := timed(func() error { return createOne(name(dir, j%2000)) })
				if err != nil {
					return err
				}
				writes[i] = append(writes[i], s)
			}
			return nil
		})
	}
	for i := range w.n(200) {
		time.Sleep(10 * time.Millisecond)
		var s span
		if s, err = timed(func() error { return capture(fmt.Sprintf("load%d", i)) }); err != nil {
			break
		}
		captures = append(captures, s)
		if err = w.b.ctx.Err(); err != nil {
			break
		}
	}
	stop.Store(true)
	return captures, writes, errors.Join(err, g.Wait())
}

// captureUnderLoad is the 99th percentile of the captures.
func captureUnderLoad(w *work) (float64, error) {
	captures, _, err := underLoad(w)
	var all []float64
	for _, c := range captures {
		all = append(all, float64(c.to-c.from)/1e6)
	}
	return quantile(all, 0.99), err
}

// delayedWrite is the 99th percentile, over captures, of the slowest write that
// was under way during one, moved by some time.
func delayedWrite(shift time.Duration) func(w *work) (float64, error) {
	return func(w *work) (float64, error) {
		captures, writes, err := underLoad(w)
		var all []float64
		next := make([]int, len(writes))
		for _, c := range captures {
			from, to := c.from+shift.Nanoseconds(), c.to+shift.Nanoseconds()
			var slowest int64
			for i, ws := range writes {
				for next[i] < len(ws) && ws[next[i]].to < from {
					next[i]++
				}
				for j := next[i]; j < len(ws) && ws[j].from <= to; j++ {
					slowest = max(slowest, ws[j].to-ws[j].from)
				}
			}
			all = append(all, float64(slowest)/1e6)
		}
		return quantile(all, 0.99), err
	}
}
