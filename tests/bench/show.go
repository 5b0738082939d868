package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
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

// The pages, and the places and figures that they show.
var (
	pages     = []string{"README.md", "docs/explanation/performance.md", "docs/dev/performance.md"}
	compared  = []string{"amberfs", "plain", "git", "btrfs", "xfs"}
	readmeDay = []string{"day", "day/processors", "day/disk after a minute", "day/snapshot, median", "day/rewind over edits", "day/rewind over npm ci"}
	fewRows   = []string{"create", "append", "read", "fsync", "sqlite", "untar", "capture", "restore", "fork", "mount"}
)

// blocks are what the pages show of results, by the names in their marks.
func blocks(lines []line) map[string]string {
	of := func(begins string) []line {
		return slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return !strings.HasPrefix(l.Row, begins) })
	}
	rest := slices.DeleteFunc(slices.Clone(lines), func(l line) bool {
		for _, apart := range []string{"day", "disk-day", "curves-", "containers-", "fio", "files", "hundred", "copy-"} {
			if strings.HasPrefix(l.Row, apart) {
				return true
			}
		}
		return false
	})
	literature := slices.Concat(of("fio"), of("files"), of("hundred"))
	readme, apart := of("day"), readmeDay
	if len(readme) == 0 {
		readme, apart = rest, fewRows
	}
	return map[string]string{
		"readme":     table(readme, apart, compared, false) + "\n" + conditions(readme) + "\n",
		"day":        table(of("day"), nil, compared, true),
		"disk":       table(of("disk-day"), nil, compared, true),
		"rows":       table(rest, fewRows, compared, true) + "\n" + conditions(rest) + "\n",
		"all":        table(rest, nil, nil, true) + "\n" + conditions(rest) + "\n",
		"conditions": rowConditions(lines),
		"commands":   commands(lines),
		"curves":     curves(of("curves-")),
		"literature": table(literature, nil, nil, true) + "\n" + conditions(literature) + "\n",
		"copies":     table(of("copy-"), nil, nil, true) + "\n" + conditions(of("copy-")) + "\n",
		"containers": table(of("containers-"), nil, nil, true) + "\n" + conditions(of("containers-")) + "\n",
	}
}

var marks = regexp.MustCompile(`(?s)(<!-- measured (\w+) -->\n).*?(<!-- end -->\n)`)

// docs returns the pages with the tables of the current set between their marks.
func docs(top string) (map[string]string, error) {
	lines, err := readLines(filepath.Join(top, current))
	if err != nil {
		return nil, err
	}
	out, texts := map[string]string{}, blocks(lines)
	for _, name := range pages {
		old, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			return nil, err
		}
		if !marks.Match(old) {
			return nil, fmt.Errorf("%s: the marks of the tables are missing", name)
		}
		out[name] = marks.ReplaceAllStringFunc(string(old), func(block string) string {
			m := marks.FindStringSubmatch(block)
			return m[1] + texts[m[2]] + m[3]
		})
	}
	return out, nil
}

func writeDocs(top string) error {
	pages, err := docs(top)
	for name, text := range pages {
		err = errors.Join(err, os.WriteFile(filepath.Join(top, name), []byte(text), 0o644))
	}
	return err
}

// table is a line a row and a column a place. Further figures of a row are rows. The ratio
// is amberfs's to the plain directory.
func table(lines []line, only, places []string, ratio bool) string {
	if len(lines) == 0 {
		return "Not measured.\n"
	}
	if places == nil {
		for _, l := range lines {
			if !slices.Contains(places, l.Place) {
				places = append(places, l.Place)
			}
		}
		slices.SortStableFunc(places, func(a, b string) int { return placeAt(a) - placeAt(b) })
	}
	places = slices.DeleteFunc(slices.Clone(places), func(p string) bool {
		return !slices.ContainsFunc(lines, func(l line) bool { return l.Place == p })
	})
	head := slices.Clone(places)
	if ratio = ratio && slices.Contains(places, "plain"); ratio {
		head = append(head, "amberfs/plain")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "|work|%s|\n|---|%s\n", strings.Join(head, "|"), strings.Repeat("---|", len(head)))
	var done []string
	for _, l := range lines {
		if slices.Contains(done, l.Row) || only != nil && !slices.Contains(only, l.Row) {
			continue
		}
		done = append(done, l.Row)
		cells, median := make([]string, len(head)), map[string]float64{}
		for _, o := range lines {
			if i := slices.Index(places, o.Place); i >= 0 && o.Row == l.Row {
				cells[i], median[o.Place] = o.spread(), o.Median
			}
		}
		if ratio && median["amberfs"] > 0 && median["plain"] > 0 {
			cells[len(places)] = figure(median["amberfs"] / median["plain"])
		}
		fmt.Fprintf(&b, "|%s, %s|%s|\n", l.title(), l.Unit, strings.Join(cells, "|"))
	}
	return b.String()
}

func placeAt(name string) int {
	for i, o := range openers {
		if o.name == name {
			return i
		}
	}
	return len(openers)
}

// title is the work, or which figure of it.
func (l line) title() string {
	if _, figure, ok := strings.Cut(l.Row, "/"); ok {
		return figure
	}
	return l.What
}

// conditions are what all rows were measured under.
func conditions(lines []line) string {
	if len(lines) == 0 {
		return ""
	}
	n := len(lines[0].All)
	var loads []float64
	var commits []string
	for _, l := range lines {
		if strings.Contains(l.Row, "minute") { // one sample
			continue
		}
		n = min(n, len(l.All))
		var load float64
		_, _ = fmt.Sscan(l.Load, &load)
		loads = append(loads, load)
		if !slices.Contains(commits, l.Commit) {
			commits = append(commits, l.Commit)
		}
	}
	m := lines[0].machine
	day, _, _ := strings.Cut(m.Time, "T")
	return fmt.Sprintf("Median (range), n ≥ %d, by turns. %s, commit %s, Linux %s, %d processors (%s), load %.2f to %.2f.",
		n, day, strings.Join(commits, ", "), m.Kernel, m.CPUs, m.CPU, slices.Min(loads), slices.Max(loads))
}

// rowConditions are a line a row: when, at what load, at what speed of the disk, and what
// was discarded.
func rowConditions(lines []line) string {
	var b strings.Builder
	b.WriteString("|row|commit|begun|load|disk, MB/s|rounds discarded|samples not warm|seconds|\n|---|---|---|---|---|---|---|---|\n")
	for i, l := range lines {
		if strings.Contains(l.Row, "/") || slices.ContainsFunc(lines[:i], func(o line) bool { return o.Row == l.Row }) {
			continue
		}
		cold := 0
		for _, o := range lines {
			if o.Row == l.Row {
				cold += o.Cold
			}
		}
		fmt.Fprintf(&b, "|`%s`|%s|%s|%s|%.0f–%.0f|%d|%d|%.0f|\n", l.Row, l.Commit, l.Begun, l.Load, slices.Min(l.DiskMB), slices.Max(l.DiskMB), l.Discarded, cold, l.Seconds)
	}
	return b.String()
}

// commands are what each place does, a line a row.
func commands(lines []line) string {
	var b strings.Builder
	var done []string
	for _, l := range lines {
		if l.How == "" || slices.Contains(done, l.Row) {
			continue
		}
		done = append(done, l.Row)
		var how, places []string
		for _, o := range lines {
			if o.Row != l.Row {
				continue
			}
			if i := slices.Index(how, o.How); i >= 0 {
				places[i] = "each place"
			} else {
				how, places = append(how, o.How), append(places, o.Place)
			}
		}
		fmt.Fprintf(&b, "- `%s`:", l.Row)
		for i := range how {
			fmt.Fprintf(&b, " %s: `%s`.", places[i], how[i])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// curves are a table a cost, with a column a size.
func curves(lines []line) string {
	var b strings.Builder
	for _, c := range curveRows {
		var sizes, figures []string
		cells := map[string]string{}
		for _, l := range lines {
			row, rest, ok := strings.Cut(l.Row, "/")
			size, name, _ := strings.Cut(rest, " ")
			if !ok || row != c.name {
				continue
			}
			name = strings.TrimSuffix(name+", "+l.Unit, ", ")
			if !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
			if !slices.Contains(figures, name) {
				figures = append(figures, name)
			}
			cells[size+name] = figure(l.Median)
		}
		if sizes == nil {
			continue
		}
		what := c.what
		if c.reach != "" {
			what += " (" + c.reach + ")"
		}
		fmt.Fprintf(&b, "\n|%s|%s|\n|---|%s\n", what, strings.Join(sizes, "|"), strings.Repeat("---|", len(sizes)))
		for _, f := range figures {
			fmt.Fprintf(&b, "|%s|", f)
			for _, size := range sizes {
				b.WriteString(cells[size+f] + "|")
			}
			b.WriteString("\n")
		}
	}
	if len(lines) > 0 {
		b.WriteString("\n" + conditions(lines) + "\n")
	}
	return b.String()
}
