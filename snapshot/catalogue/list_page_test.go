package catalogue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestListedFrom: a listing in parts has what a whole one has, and a part of a few names
// does not copy all.
func TestListedFrom(t *testing.T) {
	const snapshots, forks = 300, 20
	s := stores.Open(t, t.TempDir())
	w := s.Main()
	for i := range snapshots {
		_, err := w.Capture(snapshot.CaptureOptions{Name: fmt.Sprint("s", i)})
		must.OK(t, err)
	}
	var names []string
	for _, i := range slices.Backward(w.List()) {
		names = append(names, i.Name)
	}
	inParts(t, names, w.Snapshots().Page)
	if n := testing.AllocsPerRun(10, func() { w.Snapshots().Page(2, 1) }); n > 5 {
		t.Errorf("%v allocations for one name", n)
	}
	slices.Reverse(names)
	var newest []string
	for i := range w.Snapshots().NewestFirst() {
		newest = append(newest, i.Name)
	}
	if !slices.Equal(newest, names) {
		t.Errorf("newest first: %q, want %q", newest, names)
	}
	if n := testing.AllocsPerRun(10, func() {
		for range w.Snapshots().NewestFirst() {
			break
		}
	}); n > 10 {
		t.Errorf("%v allocations for the newest", n)
	}
	names = nil
	for i := range forks {
		names = append(names, fmt.Sprint("f", forks-i))
		_, err := w.Forks().New(snapshot.ForkOptions{Name: names[i]})
		must.OK(t, err)
	}
	inParts(t, names, w.Forks().Page)
}

func inParts(t *testing.T, want []string, next func(from uint64, n int) []snapshot.ListEntry) {
	t.Helper()
	const part = 7
	var got []string
	for from := uint64(0); ; {
		all := next(from, part)
		for _, e := range all {
			got = append(got, e.Name)
			from = e.Position + 1
		}
		if len(all) < part {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed in parts: %q, want %q", got, want)
	}
}
