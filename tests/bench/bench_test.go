package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

func TestRowsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.name] {
			t.Errorf("two rows are named %q", r.name)
		}
		seen[r.name] = true
		if r.run == nil {
			t.Errorf("row %q has no work", r.name)
		}
	}
}

func TestChoose(t *testing.T) {
	for only, want := range map[string]string{
		"read": "read", "unlink,create": "unlink create", "capture": "capture capture-call",
		"cold-": "cold-seq cold-tree",
	} {
		chosen, err := choose(only)
		var names []string
		for _, r := range chosen {
			names = append(names, r.name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("choose(%q) = %q, %v; want %q", only, got, err, want)
		}
	}
	if _, err := choose("no-such-row"); err == nil {
		t.Error("an unknown row was not refused")
	}
}

func TestQuantile(t *testing.T) {
	all := []float64{4, 1, 3, 2}
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 1: 4} {
		if got := quantile(all, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

// The tables of the documentation are those of the current set: -docs writes them.
func TestDocs(t *testing.T) {
	top := filepath.Join("..", "..")
	pages, err := docs(top)
	must.OK(t, err)
	for name, want := range pages {
		if got, err := os.ReadFile(filepath.Join(top, name)); err != nil || string(got) != want {
			t.Errorf("%s differs from %s (%v): go run ./tests/bench -docs", name, current, err)
		}
	}
}
