package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRowsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.name] {
			t.Errorf("two rows are named %q", r.name)
		}
		seen[r.name] = true
		if (r.run == nil) == (r.alone == nil) {
			t.Errorf("row %q has no work, or two", r.name)
		}
	}
}

func TestChoose(t *testing.T) {
	for only, want := range map[string]string{
		"read": "read", "unlink,create": "create unlink", "capture-1k,sqlite": "sqlite capture-1k",
		"memory": "memory-new memory-new-rest memory-known memory-known-rest memory-walked",
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

func TestPlotsAreXML(t *testing.T) {
	svg := draw("a & b", "files", "ms", []curve{{"one", [][2]float64{{1000, 0.1}, {1e6, 0.2}}}, {"two", [][2]float64{{1000, 300}}}})
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}
