package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// writeDocs puts the tables of the current set between the marks of the pages.
func writeDocs(top string) error {
	lines, err := readLines(top + "/" + current)
	if err != nil {
		return err
	}
	for _, page := range []struct {
		name string
		text string
	}{
		{"README.md", table(lines, readmeRows, []string{"amberfs", "plain"})},
		{"docs/explanation/performance.md", table(lines, nil, nil) + "\n" + footnote(lines)},
	} {
		path := top + "/" + page.name
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, err := between(string(old), page.text)
		if err != nil {
			return fmt.Errorf("%s: %w", page.name, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
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
	fmt.Fprintf(&b, "| work | %s |\n|---|%s\n", strings.Join(places, " | "), strings.Repeat("---|", len(places)))
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
		fmt.Fprintf(&b, "| %s, %s | %s |\n", l.title(), l.Unit, strings.Join(cells, " | "))
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

// footnote has the conditions and the commands.
func footnote(lines []line) string {
	var b strings.Builder
	n, loads, uneven := 0, []string{}, []string{}
	how := map[string][]string{}
	for _, l := range lines {
		n = max(n, len(l.All))
		load, _, _ := strings.Cut(l.Load, " ")
		loads = append(loads, load)
		if name, _, _ := strings.Cut(l.Row, "/"); l.Uneven && !slices.Contains(uneven, "`"+name+"`") {
			uneven = append(uneven, "`"+name+"`")
		}
		if l.How != "" && !slices.Contains(how[l.Place], l.How) {
			how[l.Place] = append(how[l.Place], l.How)
		}
	}
	m := lines[0].machine
	day, _, _ := strings.Cut(m.Time, "T")
	fmt.Fprintf(&b, "Median (range) of %d samples after one to warm up, the places by turns. %s, commit %s, Linux %s, %d processors (%s), load %s to %s.",
		n, day, m.Commit, m.Kernel, m.CPUs, m.CPU, slices.Min(loads), slices.Max(loads))
	if len(uneven) > 0 {
		fmt.Fprintf(&b, " The disk changed its speed by more than 30 %% during %s.", strings.Join(uneven, ", "))
	}
	b.WriteString("\n\n")
	for _, o := range openers {
		if how[o.name] != nil {
			fmt.Fprintf(&b, "- %s: %s\n", o.name, strings.Join(how[o.name], "; "))
		}
	}
	return b.String()
}
