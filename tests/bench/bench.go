package main

import (
	"cmp"
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
	// named rows run only if they are asked for: they take long.
	named bool
	// warm is work on what the kernel has in memory: a sample that needed more requests than
	// usual found some of it gone and is discarded.
	warm bool
	// how is what a place does, in the words of its command line.
	how func(p place) string
}

// work is what a row gets.
type work struct {
	place place
	dir   string // empty, in the place
	b     *bench
	cost  *cost
	more  []figureOf
}

// A figureOf is one that a row has beside its own.
type figureOf struct {
	name, unit string
	value      float64
}

// also notes a further figure of the row.
func (w *work) also(name, unit string, value float64) {
	w.more = append(w.more, figureOf{name, unit, value})
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

// A result is one figure, over all samples.
type result struct {
	Row    string    `json:"row"`
	What   string    `json:"what"`
	Place  string    `json:"place"`
	How    string    `json:"how,omitempty"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	All    []float64 `json:"all"`
	Ratio  float64   `json:"ratio,omitempty"` // to the reference; above 1 is slower or more
	Reach  string    `json:"reach,omitempty"`
	Warm   bool      `json:"warm,omitempty"`
	Load   string    `json:"load"`   // average when it was measured
	DiskMB []float64 `json:"disk"`   // MB/s of the calibration before and after
	Uneven bool      `json:"uneven"` // the two differ by more than tolerance, again
	Cold   int       `json:"cold"`   // discarded samples of a warm row
	Cost   *cost     `json:"cost,omitempty"`
}

// bench holds the places that rows run in.
type bench struct {
	ctx       context.Context
	base, bin string
	scale     float64
	repeat    int
	places    []place
	last      bool // it is the last sample
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

// tolerance is how far the calibrations before and after a row may be apart.
const tolerance = 1.3

// measure runs a row in all its places, interleaved; again if the disk changed its speed
// meanwhile.
func (b *bench) measure(r row) (out []result, err error) {
	for range 2 {
		load := loadAverage()
		before, err := b.calibrate()
		if err != nil {
			return nil, err
		}
		if out, err = b.measurePlaces(r); err != nil {
			return nil, err
		}
		after, err := b.calibrate()
		if err != nil {
			return nil, err
		}
		uneven := max(before, after) > tolerance*min(before, after)
		for i := range out {
			o := &out[i]
			o.What, o.Reach, o.Warm, o.Load = r.what, r.reach, r.warm, load
			o.DiskMB, o.Uneven = []float64{before, after}, uneven
		}
		if !uneven {
			break
		}
		fmt.Fprintf(os.Stderr, "%s: the disk wrote %.0f MB/s before and %.0f after\n", r.name, before, after)
	}
	ref := cmp.Or(r.ref, "plain")
	for i := range out {
		o := &out[i]
		if j := slices.IndexFunc(out, func(p result) bool { return p.Row == o.Row && p.Place == ref }); j >= 0 && out[j].Median > 0 && o.Median > 0 {
			o.Ratio = o.Median / out[j].Median
			if r.higher {
				o.Ratio = 1 / o.Ratio
			}
		}
	}
	return out, nil
}

// calibrate writes to the disk that all places are on, and returns MB/s.
func (b *bench) calibrate() (float64, error) {
	const size = 64 << 20
	f, err := os.Create(filepath.Join(b.base, "calibration"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	buf, start := noise(1<<20), time.Now()
	for range size / len(buf) {
		if _, err := f.Write(buf); err != nil {
			return 0, errors.Join(err, f.Close())
		}
	}
	err = errors.Join(f.Sync(), f.Close())
	return size / 1e6 / time.Since(start).Seconds(), err
}

// A sample is one run of a row in a place.
type sample struct {
	value    float64
	requests float64
	cost     *cost
	more     []figureOf
}

// measurePlaces takes one sample in each place to warm up, and then as many as asked for,
// by turns.
func (b *bench) measurePlaces(r row) ([]result, error) {
	where := r.where
	if where == nil {
		where = notGit
	}
	samples := map[string][]sample{}
	for i := range b.repeat + 1 {
		b.last = i == b.repeat
		for _, p := range b.places {
			if !where(p) {
				continue
			}
			if b.ctx.Err() != nil {
				return nil, b.ctx.Err()
			}
			s, err := b.once(r, p)
			if errors.Is(err, errNoCall) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("on %s: %w", p.name, err)
			}
			if i > 0 {
				samples[p.name] = append(samples[p.name], s)
			}
			fmt.Fprintf(os.Stderr, "%-18s %-16s %.4g %s\n", r.name, p.name, s.value, r.unit)
		}
	}
	var out []result
	for _, p := range b.places {
		all := samples[p.name]
		if all == nil {
			continue
		}
		cold := 0
		if r.warm {
			all, cold = warmOnly(all)
		}
		out = append(out, results(r, p, all, cold)...)
	}
	return out, nil
}

// warmOnly discards the samples that needed more requests than is usual.
func warmOnly(all []sample) (warm []sample, cold int) {
	var requests []float64
	for _, s := range all {
		requests = append(requests, s.requests)
	}
	usual := median(requests)
	warm = slices.DeleteFunc(slices.Clone(all), func(s sample) bool { return s.requests > 1.5*usual+10 })
	return warm, len(all) - len(warm)
}

// results are the figures of a row in a place, over all samples.
func results(r row, p place, all []sample, cold int) []result {
	one := result{Row: r.name, Place: p.name, Unit: r.unit, Cold: cold, Cost: all[len(all)-1].cost}
	if r.how != nil {
		one.How = r.how(p)
	}
	out := []result{one}
	for _, s := range all {
		out[0].All = append(out[0].All, s.value)
		for _, m := range s.more {
			i := slices.IndexFunc(out, func(o result) bool { return o.Row == r.name+"/"+m.name })
			if i < 0 {
				i = len(out)
				out = append(out, result{Row: r.name + "/" + m.name, Place: p.name, Unit: m.unit})
			}
			out[i].All = append(out[i].All, m.value)
		}
	}
	for i := range out {
		out[i].Median = median(out[i].All)
	}
	return out
}

// once runs a row in one place and leaves nothing behind.
func (b *bench) once(r row, p place) (s sample, err error) {
	b.serial++
	w := &work{place: p, b: b, dir: filepath.Join(p.dir, fmt.Sprintf("%s-%d", r.name, b.serial))}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(w.dir)) }()
	s.value, err = r.run(w)
	s.cost, s.more = w.cost, w.more
	if w.cost != nil {
		s.requests = w.cost.waiting()
	}
	return s, err
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
