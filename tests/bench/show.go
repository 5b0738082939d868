package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A line is a result as it is kept.
type line struct {
	machine
	result
}

func readLines(name string) (lines []line, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		lines = append(lines, l)
	}
}

// current is the set of results that the documentation shows.
const current = "tests/bench/results/current.jsonl"

// readmeRows are those of the README.
var readmeRows = []string{"create", "read", "fsync", "untar", "capture-10k", "restore-10k"}

// docs returns the pages with the tables of the current set between their marks.
func docs(top string) (map[string]string, error) {
	lines, err := readLines(filepath.Join(top, current))
	if err != nil {
		return nil, err
	}
	pages := map[string]string{
		"README.md":                       table(lines, readmeRows, []string{"amberfs", "plain"}) + "\n" + conditions(lines) + "\n",
		"docs/explanation/performance.md": table(lines, nil, []string{"amberfs", "plain", "btrfs", "xfs", "git"}) + "\n" + conditions(lines) + "\n",
		"docs/dev/performance.md":         table(lines, nil, nil) + "\n" + conditions(lines) + "\n\n" + commands(lines),
	}
	for name, text := range pages {
		old, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			return nil, err
		}
		if pages[name], err = between(string(old), text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return pages, nil
}

func writeDocs(top string) error {
	pages, err := docs(top)
	for name, text := range pages {
		err = errors.Join(err, os.WriteFile(filepath.Join(top, name), []byte(text), 0o644))
	}
	return err
}

// The marks around what is generated.
const markFrom, markTo = "<!-- measured -->\n", "<!-- end -->\n"

func between(page, text string) (string, error) {
	before, rest, found := strings.Cut(page, markFrom)
	_, after, closed := strings.Cut(rest, markTo)
	if !found || !closed {
		return "", errors.New("the marks of the table are missing")
	}
	return before + markFrom + text + markTo + after, nil
}

// table is a line a row and a column a place. Further figures of a row are rows.
func table(lines []line, only, places []string) string {
	if places == nil {
		for _, o := range openers {
			if slices.ContainsFunc(lines, func(l line) bool { return l.Place == o.name }) {
				places = append(places, o.name)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "|work|%s|\n|---|%s\n", strings.Join(places, "|"), strings.Repeat("---|", len(places)))
	var done []string
	for _, l := range lines {
		if slices.Contains(done, l.Row) || only != nil && !slices.Contains(only, l.Row) {
			continue
		}
		done = append(done, l.Row)
		cells := make([]string, len(places))
		for _, o := range lines {
			if i := slices.Index(places, o.Place); i >= 0 && o.Row == l.Row {
				cells[i] = o.spread()
			}
		}
		fmt.Fprintf(&b, "|%s, %s|%s|\n", l.title(), l.Unit, strings.Join(cells, "|"))
	}
	return b.String()
}

// title is the work, or which figure of it.
func (l line) title() string {
	if _, figure, ok := strings.Cut(l.Row, "/"); ok {
		return "– " + figure
	}
	return l.What
}

// conditions are what all rows were measured under.
func conditions(lines []line) string {
	n, loads, uneven := 0, []string{}, []string{}
	for _, l := range lines {
		n = max(n, len(l.All))
		load, _, _ := strings.Cut(l.Load, " ")
		loads = append(loads, load)
		if name, _, _ := strings.Cut(l.Row, "/"); l.Uneven && !slices.Contains(uneven, "`"+name+"`") {
			uneven = append(uneven, "`"+name+"`")
		}
	}
	m := lines[0].machine
	day, _, _ := strings.Cut(m.Time, "T")
	s := fmt.Sprintf("Median (range), n = %d, by turns. %s, commit %s, Linux %s, %d processors (%s), load %s to %s.",
		n, day, m.Commit, m.Kernel, m.CPUs, m.CPU, slices.Min(loads), slices.Max(loads))
	if len(uneven) > 0 {
		s += fmt.Sprintf(" The disk's speed changed by over 30 %% in %s.", strings.Join(uneven, ", "))
	}
	return s
}

// commands are what the places did for a snapshot, a restore or a branch.
func commands(lines []line) string {
	var b strings.Builder
	for _, o := range openers {
		var how []string
		for _, l := range lines {
			if l.Place == o.name && l.How != "" && !slices.Contains(how, l.How) {
				how = append(how, l.How)
			}
		}
		if how != nil {
			fmt.Fprintf(&b, "- %s: %s\n", o.name, strings.Join(how, "; "))
		}
	}
	return b.String()
}
