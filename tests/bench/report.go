package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// machine is where the figures come from.
type machine struct {
	Time   string `json:"time"`
	Commit string `json:"commit"`
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
}

func thisMachine() machine {
	return machine{
		Time:   time.Now().UTC().Format(time.RFC3339),
		Commit: output("git", "rev-parse", "--short", "HEAD"),
		Kernel: release(),
		CPU:    cpu(),
		CPUs:   runtime.NumCPU(),
		Go:     runtime.Version(),
	}
}

// release is the version of the kernel, without what a distribution adds.
func release() string {
	version, _, _ := strings.Cut(output("uname", "-r"), "-")
	return version
}

// loadAverage is that of the last minute, five and fifteen minutes.
func loadAverage() string {
	return strings.Join(slices.Clip(append(strings.Fields(fileText("/proc/loadavg")), "?", "?", "?"))[:3], " ")
}

func cpu() string {
	for line := range strings.Lines(fileText("/proc/cpuinfo")) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}

// report prints the table.
func report(w io.Writer, m machine, results []result) {
	fmt.Fprintf(w, "\namberfs %s, %s, Linux %s, %d × %s, %s\n\n", m.Commit, m.Time, m.Kernel, m.CPUs, m.CPU, m.Go)
	slices.SortStableFunc(results, func(a, b result) int { return strings.Compare(a.group(), b.group()) })
	last := ""
	for _, r := range results {
		if r.Row != last {
			fmt.Fprintf(w, "%s: %s\n", r.Row, r.conditions())
			last = r.Row
		}
		line := fmt.Sprintf("    %-18s %s", r.Place, r.spread())
		if r.Ratio != 0 {
			line += fmt.Sprintf("  × %s", figure(r.Ratio))
		}
		for _, l := range r.Cost.lines() {
			line += "\n        " + l
		}
		fmt.Fprintln(w, line)
	}
}

// group is the row and, of its further figures, the name; places come in their order.
func (r result) group() string {
	at := slices.IndexFunc(rows, func(w row) bool { name, _, _ := strings.Cut(r.Row, "/"); return w.name == name })
	return fmt.Sprintf("%03d%s", at, r.Row)
}

// conditions are what a row was measured under.
func (r result) conditions() string {
	load, _, _ := strings.Cut(r.Load, " ")
	s := fmt.Sprintf("%s (%s; load %s, disk %.0f and %.0f MB/s", r.What, r.Unit, load, r.DiskMB[0], r.DiskMB[1])
	if r.Uneven {
		s += ", uneven"
	}
	if r.Reach != "" {
		s += "; to reach: " + r.Reach
	}
	return s + ")"
}

// spread is the median with the range of all samples, and how many they are.
func (r result) spread() string {
	s := fmt.Sprintf("%s (%s–%s)", figure(r.Median), figure(slices.Min(r.All)), figure(slices.Max(r.All)))
	if r.Cold > 0 {
		s += fmt.Sprintf(", %d samples were not warm", r.Cold)
	}
	return s
}

func figure(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 1:
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// appendJSON adds one line a result to a file.
func appendJSON(path string, m machine, results []result) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, r := range results {
		if err := enc.Encode(struct {
			machine
			result
		}{m, r}); err != nil {
			f.Close()
			return err
		}
	}
	return f.Close()
}
