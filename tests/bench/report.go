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
		Kernel: output("sh", "-c", "uname -r | cut -d- -f1"),
		CPU:    output("sed", "-n", "/^model name/{s/.*: //p;q}", "/proc/cpuinfo"),
		CPUs:   runtime.NumCPU(),
		Go:     runtime.Version(),
	}
}

// loadAverage is that of the last minute, five and fifteen minutes.
func loadAverage() string { return output("cut", "-d ", "-f1-3", "/proc/loadavg") }

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
