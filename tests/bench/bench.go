package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A row is one kind of work.
type row struct {
	name, what string
	unit       string // of the figure
	higher     bool   // a higher figure is better
	// run does the work in a directory of a place and returns the figure.
	run func(w work) (float64, error)
	// where limits a row to the places that can do it; nil is everywhere.
	where func(p place) bool
	// once runs it once, because it grows what is there or takes long.
	once bool
}

// work is what a row gets.
type work struct {
	place place
	dir   string // empty, in the place
	b     *bench
}

// n scales a number of things to do.
func (w work) n(full int) int { return max(1, int(float64(full)*w.b.scale)) }

// A result is one figure.
type result struct {
	Row    string    `json:"row"`
	What   string    `json:"what"`
	Place  string    `json:"place"`
	Unit   string    `json:"unit"`
	Median float64   `json:"median"`
	All    []float64 `json:"all"`
	Ratio  float64   `json:"ratio,omitempty"` // to the reference; above 1 is slower or more
}

// bench holds the places that rows run in.
type bench struct {
	base, bin string
	scale     float64
	places    []place
	serial    int
	inputs    map[string]string
}

func (b *bench) open() {
	b.inputs = map[string]string{}
	for _, open := range openers {
		p, err := open(b)
		if err != nil {
			fmt.Fprintf(os.Stderr, "without %v\n", err)
			continue
		}
		b.places = append(b.places, p)
	}
}

func (b *bench) close() {
	for _, p := range slices.Backward(b.places) {
		if err := p.close(); err != nil {
			fmt.Fprintf(os.Stderr, "closing %s: %v\n", p.name, err)
		}
	}
	if err := os.RemoveAll(b.base); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// measure runs a row in all its places, interleaved.
func (b *bench) measure(r row, repeat int) ([]result, error) {
	if r.once {
		repeat = 1
	}
	figures := map[string][]float64{}
	for range repeat {
		for _, p := range b.places {
			if r.where != nil && !r.where(p) {
				continue
			}
			b.serial++
			dir := filepath.Join(p.dir, fmt.Sprintf("%s-%d", r.name, b.serial))
			if err := os.Mkdir(dir, 0o755); err != nil {
				return nil, err
			}
			f, err := r.run(work{place: p, dir: dir, b: b})
			if err != nil {
				return nil, fmt.Errorf("on %s: %w", p.name, err)
			}
			figures[p.name] = append(figures[p.name], f)
			fmt.Fprintf(os.Stderr, "%-14s %-16s %.4g %s\n", r.name, p.name, f, r.unit)
			if err := os.RemoveAll(dir); err != nil {
				return nil, err
			}
		}
	}
	var out []result
	for _, p := range b.places {
		if all := figures[p.name]; all != nil {
			out = append(out, result{Row: r.name, What: r.what, Place: p.name, Unit: r.unit, Median: median(all), All: all})
		}
	}
	if i := slices.IndexFunc(out, func(r result) bool { return r.Place == "plain" || r.Place == "git" }); i >= 0 && out[i].Median > 0 {
		for j := range out {
			out[j].Ratio = out[j].Median / out[i].Median
			if r.higher {
				out[j].Ratio = out[i].Median / out[j].Median
			}
		}
	}
	return out, nil
}

func median(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
