package main

import "time"

// times is how often a row of history does its work in one repetition, unless
// that takes longer than longest.
const (
	times   = 5
	longest = 5 * time.Second
)

// medianOf times do, with something before it each time that does not count. The
// daemon's counters are read around one more time: they cost it as much as what
// is timed.
func (w *work) medianOf(times int, before, do func() error) (float64, error) {
	var all []float64
	for end := time.Now().Add(longest); len(all) == 0 || len(all) < times && time.Now().Before(end); {
		if err := before(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		all = append(all, ms(time.Since(start)))
	}
	if w.place.metrics != "" {
		if err := before(); err != nil {
			return 0, err
		}
		if _, err := w.timed(1, do); err != nil {
			return 0, err
		}
	}
	return median(all), w.b.ctx.Err()
}

// onTree is a row's work on the place's tree.
func onTree(do func(w *work, g *grown) (float64, error)) func(*work) (float64, error) {
	return func(w *work) (float64, error) {
		g, err := w.tree()
		if err != nil {
			return 0, err
		}
		return do(w, g)
	}
}

// capture is a snapshot after ten files changed, so many that most are made while
// the first is being sealed.
func capture(take func(h history, name string) error) func(*work, *grown) (float64, error) {
	return func(w *work, g *grown) (float64, error) {
		return w.medianOf(times, g.change, func() error { return take(g.history, g.next()) })
	}
}

// restore takes ten changed files back.
func restore(back func(h history, name string) error) func(*work, *grown) (float64, error) {
	return func(w *work, g *grown) (float64, error) {
		name := g.next()
		if err := g.capture(name); err != nil {
			return 0, err
		}
		return w.medianOf(times, g.change, func() error { return back(g.history, name) })
	}
}
