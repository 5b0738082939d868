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

// show prints rows kept in files as a table.
func show(files []string) error {
	var lines []line
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		for d := json.NewDecoder(f); ; {
			var l line
			if err = d.Decode(&l); err != nil {
				break
			}
			lines = append(lines, l)
		}
		f.Close()
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	printMarkdown(os.Stdout, newest(lines))
	return nil
}

// newest keeps of each row and place the figure of the last run, in the order
// of rows.
func newest(lines []line) []line {
	last := map[[2]string]string{}
	for _, l := range lines {
		at := [2]string{l.Row, l.Place}
		last[at] = max(last[at], l.Time)
	}
	var kept []line
	for _, r := range rows {
		for _, l := range lines {
			if l.Row == r.name && l.Time == last[[2]string{l.Row, l.Place}] {
				kept = append(kept, l)
			}
		}
	}
	return kept
}

// printMarkdown is one table: a line a row, a column a place.
func printMarkdown(w io.Writer, lines []line) {
	var places []string
	for _, o := range openers {
		if slices.ContainsFunc(lines, func(l line) bool { return l.Place == o.name }) {
			places = append(places, o.name)
		}
	}
	fmt.Fprintf(w, "| row | work | unit | %s | to reach | commit, load |\n|---|---|---|%s---|---|\n", strings.Join(places, " | "), strings.Repeat("---|", len(places)))
	for i, l := range lines {
		if i > 0 && lines[i-1].Row == l.Row {
			continue
		}
		cells := make([]string, len(places))
		for _, o := range lines {
			if j := slices.Index(places, o.Place); j >= 0 && o.Row == l.Row {
				cells[j] = figure(o.Median)
				if o.Ratio != 0 && o.Ratio != 1 {
					cells[j] += fmt.Sprintf(" (×\u00a0%s)", figure(o.Ratio))
				}
			}
		}
		load, _, _ := strings.Cut(l.Load, " ")
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %s | %s, %s |\n", l.Row, l.What, l.Unit, strings.Join(cells, " | "), l.Reach, l.Commit, load)
	}
	fmt.Fprint(w, "\n| row | work | unit | figures |\n|---|---|---|---|\n")
	for i, l := range lines {
		if slices.Contains(places, l.Place) && !slices.ContainsFunc(lines, func(o line) bool { return o.Row == l.Row && !slices.Contains(places, o.Place) }) ||
			i > 0 && lines[i-1].Row == l.Row {
			continue
		}
		var told []string
		for _, o := range lines {
			if o.Row == l.Row {
				told = append(told, o.Place+" "+figure(o.Median))
			}
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", l.Row, l.What, l.Unit, strings.Join(told, ", "))
	}
	fmt.Fprint(w, "\n| row | what reached the daemon |\n|---|---|\n")
	for _, l := range lines {
		if told := l.Cost.lines(); told != nil {
			fmt.Fprintf(w, "| `%s` | %s |\n", l.Row, strings.Join(told, "<br>"))
		}
	}
}
