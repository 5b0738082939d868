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

	"golang.org/x/sys/unix"
)

// A row is one kind of work.
type row struct {
	name, what string
	unit       string // of the figure
	reach      string // what is to be reached
	// run does the work in a directory of a place and returns the figure.
	run func(w *work) (float64, error)
	// where limits a row to the places that can do it; nil is everywhere but
	// in git's.
	where func(p place) bool
	// named rows run only if they are asked for: they take long.
	named bool
	// warm is work on what the kernel has in memory: a sample that needed more requests or
	// disk reads than usual found some of it gone, and is discarded and taken again.
	warm bool
	// how is what a place does, as its calls or command lines.
	how func(p place) string
	// alone rows need no warm-up and have one sample: they build up what they measure.
	alone bool
}

// same is how a row works that does the same in all places.
func same(how string) func(place) string { return func(place) string { return how } }

// work is what a row gets.
type work struct {
	place place
	dir   string // empty, in the place
	b     *bench
	round int // 0 is the one that warms up
	cost  *cost
	reads float64 // bytes that this process had read from the disk
	more  []figureOf
	kept  bool // its directory is removed later
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
	read, start := diskReads(), time.Now()
	err = do()
	took := time.Since(start)
	if err != nil {
		return 0, err
	}
	w.reads += diskReads() - read
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
	Row       string    `json:"row"`
	What      string    `json:"what"`
	Place     string    `json:"place"`
	How       string    `json:"how,omitempty"`
	Unit      string    `json:"unit"`
	Median    float64   `json:"median"`
	All       []float64 `json:"all"`
	Reach     string    `json:"reach,omitempty"`
	Warm      bool      `json:"warm,omitempty"`
	Begun     string    `json:"begun"`
	Load      string    `json:"load"`              // averages when the row began
	DiskMB    []float64 `json:"disk"`              // MB/s of the calibrations, before and after each round
	Discarded int       `json:"discarded"`         // rounds in which the disk changed its speed
	Uneven    bool      `json:"uneven,omitempty"`  // it did so too often: such rounds are among the samples
	Cold      int       `json:"cold"`              // discarded samples of a warm row
	Seconds   float64   `json:"seconds,omitempty"` // that the row took in all its places
	Cost      *cost     `json:"cost,omitempty"`
}

// bench holds the places that rows run in.
type bench struct {
	ctx       context.Context
	base, bin string
	scale     float64
	repeat    int
	places    []place
	settling  []settling
	extra     time.Duration // spent on rounds that replace others
	serial    int
	inputs    map[string]string
	trees     map[string]*grown // by place
}

func (b *bench) open(only string) {
	b.inputs, b.trees = map[string]string{}, map[string]*grown{}
	for _, o := range openers {
		if only != "" && !slices.Contains(strings.Split(only, ","), o.name) {
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
	for _, g := range b.trees {
		if err := g.close(); err != nil {
			fmt.Fprintf(os.Stderr, "closing a tree: %v\n", err)
		}
	}
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

// tolerance is how far the calibrations before and after a round may be apart.
const tolerance = 1.3

// measure runs a row in all its places: one round to warm up, and then as many rounds as
// samples are asked for, each in the order opposite to that of the round before. A round in
// which the disk changed its speed is discarded, and so is a cold sample of a warm row;
// more rounds replace them.
func (b *bench) measure(r row) (out []result, err error) {
	places := slices.Clone(b.places)
	places = slices.DeleteFunc(places, func(p place) bool { return r.where == nil && !notGit(p) || r.where != nil && !r.where(p) })
	if len(places) == 0 {
		return nil, &leftOut{"no place for it"}
	}
	defer func() { err = errors.Join(err, b.settle(nil)) }()
	start, load := time.Now(), loadAverage()
	first, repeat := 0, b.repeat
	if r.alone {
		first, repeat = 1, 1
	}
	even, uneven := map[string][]sample{}, map[string][]sample{}
	speed, err := b.calibrate()
	if err != nil {
		return nil, err
	}
	speeds, discarded, enough := []float64{speed}, 0, false
	for round := first; round <= repeat || !enough && round <= 2*repeat && b.extra < mostExtra; round++ {
		began, samples := time.Now(), map[string]sample{}
		for _, p := range places {
			s, err := b.once(r, p, round)
			if errors.Is(err, errNoCall) {
				continue
			}
			if err != nil && p.kind == archive { // restic's mount fails at times
				fmt.Fprintf(os.Stderr, "%s: once more on %s: %v\n", r.name, p.name, err)
				s, err = b.once(r, p, round)
			}
			if err != nil {
				return nil, fmt.Errorf("on %s: %w", p.name, err)
			}
			samples[p.name] = s
			fmt.Fprintf(os.Stderr, "%-18s %-16s %.4g %s\n", r.name, p.name, s.value, r.unit)
		}
		slices.Reverse(places)
		if err := b.settle(samples); err != nil {
			return nil, err
		}
		before := speed
		if speed, err = b.calibrate(); err != nil {
			return nil, err
		}
		speeds = append(speeds, speed)
		if round == 0 {
			continue
		}
		to := even
		if max(before, speed) > tolerance*min(before, speed) && !r.alone {
			fmt.Fprintf(os.Stderr, "%s: the disk wrote %.0f MB/s before a round and %.0f after it\n", r.name, before, speed)
			to, discarded = uneven, discarded+1
		}
		enough = true
		for name, s := range samples {
			to[name] = append(to[name], s)
			all, _ := warmOnly(r, even[name])
			enough = enough && len(all) >= repeat
		}
		if round > repeat {
			b.extra += time.Since(began)
		}
	}
	took := time.Since(start)
	fmt.Fprintf(os.Stderr, "%s: %.0f s in all\n", r.name, took.Seconds())
	for _, p := range b.places {
		all, cold := warmOnly(r, even[p.name])
		mixed := len(all) < repeat && len(uneven[p.name]) > 0
		if mixed {
			all, cold = warmOnly(r, append(even[p.name], uneven[p.name]...))
		}
		if len(all) == 0 {
			continue
		}
		for _, o := range results(r, p, all) {
			o.What, o.Reach, o.Warm = r.what, r.reach, r.warm
			o.Begun, o.Load, o.Seconds = start.UTC().Format(time.RFC3339), load, took.Seconds()
			o.DiskMB, o.Discarded, o.Uneven, o.Cold = speeds, discarded, mixed, cold
			out = append(out, o)
		}
	}
	return out, nil
}

// mostExtra is how long the rounds that replace discarded ones may take, of all rows.
const mostExtra = 4 * time.Minute

// calibrate writes to the disk that all places are on, and returns MB/s of the fastest of
// three writes.
func (b *bench) calibrate() (best float64, err error) {
	const size = 32 << 20
	unix.Sync()
	buf := noise(1 << 20)
	for range 3 {
		f, err := os.Create(filepath.Join(b.base, "calibration"))
		if err != nil {
			return 0, err
		}
		start := time.Now()
		for range size / len(buf) {
			_, e := f.Write(buf)
			err = errors.Join(err, e)
		}
		err = errors.Join(err, f.Sync(), f.Close())
		best = max(best, size/1e6/time.Since(start).Seconds())
		if err = errors.Join(err, os.Remove(f.Name())); err != nil {
			return 0, err
		}
	}
	return best, nil
}

// A settling place is left as a sample left it until a minute after the round.
type settling struct {
	place string
	look  func() []figureOf
	end   func() error
}

// settle waits a minute and adds what places then look like to their samples. Without
// samples it ends them at once.
func (b *bench) settle(samples map[string]sample) (err error) {
	if samples != nil && len(b.settling) > 0 {
		select {
		case <-time.After(time.Minute):
		case <-b.ctx.Done():
		}
	}
	for _, s := range b.settling {
		if one, ok := samples[s.place]; ok {
			one.more = append(one.more, s.look()...)
			samples[s.place] = one
		}
		err = errors.Join(err, s.end())
	}
	b.settling = nil
	return err
}

// A sample is one run of a row in a place.
type sample struct {
	value    float64
	requests float64 // to the daemon, or pages read from the disk
	cost     *cost
	more     []figureOf
}

// warmOnly discards the samples of a warm row that needed more requests than is usual.
func warmOnly(r row, all []sample) (warm []sample, cold int) {
	if !r.warm {
		return all, 0
	}
	var requests []float64
	for _, s := range all {
		requests = append(requests, s.requests)
	}
	usual := median(requests)
	warm = slices.DeleteFunc(slices.Clone(all), func(s sample) bool { return s.requests > 1.5*usual+10 })
	return warm, len(all) - len(warm)
}

// results are the figures of a row in a place, over all samples.
func results(r row, p place, all []sample) []result {
	one := result{Row: r.name, Place: p.name, Unit: r.unit, Cost: all[len(all)-1].cost}
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

// once runs a row in one place, with nothing left to write by what was before, and leaves
// nothing behind.
func (b *bench) once(r row, p place, round int) (s sample, err error) {
	if b.ctx.Err() != nil {
		return s, b.ctx.Err()
	}
	b.serial++
	w := &work{place: p, b: b, round: round, dir: filepath.Join(p.dir, fmt.Sprintf("%s-%d", r.name, b.serial))}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		return s, err
	}
	defer func() {
		if !w.kept {
			err = errors.Join(err, w.clear())
		}
	}()
	unix.Sync()
	s.value, err = r.run(w)
	s.cost, s.more, s.requests = w.cost, w.more, w.reads/4096
	if w.cost != nil {
		s.requests = w.cost.waiting()
	}
	return s, err
}

// clear removes what a sample left. Images of btrfs and XFS are removed as a whole.
func (w *work) clear() error {
	if w.place.kind == btrfs || w.place.kind == reflink {
		return nil
	}
	return os.RemoveAll(w.dir)
}

// diskReads are the bytes that this process had read from disks.
func diskReads() (n float64) {
	_, rest, _ := strings.Cut(fileText("/proc/self/io"), "\nread_bytes: ")
	_, _ = fmt.Sscan(rest, &n)
	return n
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
