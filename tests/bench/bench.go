package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A row is one kind of work.
type row struct {
	name, what string
	unit       string // of the figure
	higher     bool   // a higher figure is better
	reach      string // what is to be reached
	// run does the work in a directory of a place and returns the figure.
	run func(w *work) (float64, error)
	// where limits a row to the places that can do it; nil is everywhere but
	// in git's.
	where func(p place) bool
	// ref is the place that ratios are to; the plain directory if empty.
	ref string
	// once runs it once, because it grows the store or takes long.
	once bool
	// warm is work that no request of may reach the daemon.
	warm bool
}

// work is what a row gets.
type work struct {
	place place
	dir   string // empty, in the place
	b     *bench
	cost  *cost
}

// n scales a number of things to do.
func (w *work) n(full int) int { return w.b.n(full) }

func (b *bench) n(full int) int { return max(1, int(float64(full)*b.scale)) }

// timed runs the part of the work that counts, in which a number of things
// is done, and adds up what the daemon did for it.
func (w *work) timed(things int, do func() error) (time.Duration, error) {
	before, err := w.place.counters()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	err = do()
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	after, err := w.place.counters()
	if err != nil {
		return 0, err
	}
	if w.cost == nil {
		w.cost = &cost{}
	}
	w.cost.add(things, before, after)
	return took, nil
}

// each times n calls and returns µs a call.
func (w *work) each(n int, do func(i int) error) (float64, error) {
	took, err := w.timed(n, func() error { return w.b.loop(n, do) })
	return float64(took.Nanoseconds()) / 1e3 / float64(n), err
}

// loop calls do n times, and ends early when the program is interrupted.
func (b *bench) loop(n int, do func(i int) error) error {
	for i := range n {
		if i%256 == 0 && b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// leftOut is why a row cannot be run here.
type leftOut struct{ why string }

func (l *leftOut) Error() string { return l.why }

// A result is one figure.
type result struct {
	Row    string    `json:"row"`
	What   string    `json:"what"`
	Place  string    `json:"place"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	All    []float64 `json:"all"`
	Ratio  float64   `json:"ratio,omitempty"` // to the reference; above 1 is slower or more
	Reach  string    `json:"reach,omitempty"`
	Warm   bool      `json:"warm,omitempty"`
	Load   string    `json:"load"` // average when it was measured
	Cost   *cost     `json:"cost,omitempty"`
}

// bench holds the places that rows run in.
type bench struct {
	ctx       context.Context
	base, bin string
	scale     float64
	repeat    int
	places    []place
	serial    int
	inputs    map[string]string
	trees     trees
}

func (b *bench) open(only string) {
	b.inputs = map[string]string{}
	for _, o := range openers {
		if only == "" && o.name == awake || only != "" && !slices.Contains(strings.Split(only, ","), o.name) {
			continue
		}
		if b.ctx.Err() != nil {
			return
		}
		p := place{name: o.name, kind: o.kind, dir: filepath.Join(b.base, strings.ReplaceAll(o.name, " ", "-"))}
		if err := o.open(b, &p); err != nil {
			fmt.Fprintf(os.Stderr, "without %s: %v\n", o.name, err)
			continue
		}
		b.places = append(b.places, p)
	}
}

func (b *bench) close() {
	b.trees.close()
	for _, p := range slices.Backward(b.places) {
		if p.close == nil {
			continue
		}
		if err := p.close(); err != nil {
			fmt.Fprintf(os.Stderr, "closing %s: %v\n", p.name, err)
		}
	}
	if left := mountsBelow(b.base); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "still mounted: %s\n", strings.Join(left, " "))
		return
	}
	if err := os.RemoveAll(b.base); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// measure runs a row in all its places, interleaved.
func (b *bench) measure(r row) ([]result, error) {
	load := loadAverage()
	out, err := b.measurePlaces(r)
	if err != nil {
		return nil, err
	}
	for i := range out {
		o := &out[i]
		o.Row, o.What, o.Unit, o.Reach, o.Warm, o.Load = r.name, r.what, r.unit, r.reach, r.warm, load
	}
	ref := r.ref
	if ref == "" {
		ref = "plain"
	}
	if i := slices.IndexFunc(out, func(r result) bool { return r.Place == ref }); i >= 0 && out[i].Median > 0 {
		for j := range out {
			out[j].Ratio = out[j].Median / out[i].Median
			if r.higher {
				out[j].Ratio = out[i].Median / out[j].Median
			}
		}
	}
	return out, nil
}

func (b *bench) measurePlaces(r row) ([]result, error) {
	repeat := b.repeat
	if r.once {
		repeat = 1
	}
	where := r.where
	if where == nil {
		where = notGit
	}
	figures, costs := map[string][]float64{}, map[string]*cost{}
	for range repeat {
		for _, p := range b.places {
			if !where(p) {
				continue
			}
			if b.ctx.Err() != nil {
				return nil, b.ctx.Err()
			}
			f, c, err := b.once(r, p)
			var left *leftOut
			if errors.As(err, &left) {
				return nil, err
			}
			if err != nil {
				return nil, fmt.Errorf("on %s: %w", p.name, err)
			}
			figures[p.name] = append(figures[p.name], f)
			costs[p.name] = c
			fmt.Fprintf(os.Stderr, "%-18s %-16s %.4g %s\n", r.name, p.name, f, r.unit)
		}
	}
	var out []result
	for _, p := range b.places {
		if all := figures[p.name]; all != nil {
			out = append(out, result{Place: p.name, Median: median(all), All: all, Cost: costs[p.name]})
		}
	}
	return out, nil
}

// once runs a row in one place and leaves nothing behind.
func (b *bench) once(r row, p place) (f float64, c *cost, err error) {
	b.serial++
	w := &work{place: p, b: b, dir: filepath.Join(p.dir, fmt.Sprintf("%s-%d", r.name, b.serial))}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(w.dir)) }()
	f, err = r.run(w)
	return f, w.cost, err
}

func median(all []float64) float64 { return quantile(all, 0.5) }

// quantile interpolates between the two values that it falls between.
func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	at := q * float64(len(s)-1)
	lo := int(at)
	hi := min(lo+1, len(s)-1)
	return s[lo] + (s[hi]-s[lo])*(at-float64(lo))
}
