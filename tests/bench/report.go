package main

import (
	"encoding/json"
	"errors"
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

// report prints the tables, the commands, and what the daemon did.
func report(w io.Writer, lines []line) {
	fmt.Fprintf(w, "\n%s\n%s\n\n%s\n%s\n", strings.ReplaceAll(table(lines, nil, nil, true), "&nbsp;", " "), conditions(lines), rowConditions(lines), commands(lines))
	for _, l := range lines {
		if l.Cost != nil && l.Cost.Things > 0 {
			fmt.Fprintf(w, "%s, %s: %s\n", l.Row, l.Place, l.Cost)
		}
	}
}

// spread is the median with the range of all samples, in one piece.
func (r result) spread() string {
	s := figure(r.Median)
	if len(r.All) > 1 {
		s += fmt.Sprintf("&nbsp;(%s–%s)", figure(slices.Min(r.All)), figure(slices.Max(r.All)))
	}
	return s
}

func figure(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	case f >= 1:
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// appendJSON adds results to a file, one a line.
func appendJSON(path string, lines []line) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, l := range lines {
		err = errors.Join(err, enc.Encode(l))
	}
	return errors.Join(err, f.Close())
}
