package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkVolumes makes and publishes as many volumes as -benchtime says, each a clone of one with a
// file, and then restarts the daemon: go test -run - -bench Volumes -benchtime 1000x
func BenchmarkVolumes(b *testing.B) {
	p := start(b, "node1")
	first := p.create("first", nil, nil)
	write(b, filepath.Join(p.publish(first, writer, nil), "f"), "one")
	s := p.snapshot("s", first)
	empty := memory(b, p.Pid())
	ids := make([]string, b.N)
	took := map[string]float64{}
	lap := func(what string, do func()) {
		b.ResetTimer()
		do()
		took[what] = b.Elapsed().Seconds() * 1000
	}
	lap("ms/create", func() {
		for i := range b.N {
			ids[i] = p.create(fmt.Sprint("volume", i), fromSnapshot(s), nil)
		}
	})
	lap("ms/publish", func() {
		for _, id := range ids {
			p.publish(id, writer, nil)
		}
	})
	lap("ms/write", func() {
		for _, id := range ids {
			write(b, filepath.Join(p.target(id), "g"), "two")
		}
	})
	grown, driver := memory(b, p.Pid())-empty, memory(b, p.cmd.Process.Pid)
	lap("restart", func() {
		p.Crash()
		wantFile(b, filepath.Join(p.target(ids[0]), "g"), "two")
	})
	for what, ms := range took {
		if what != "restart" {
			b.ReportMetric(ms/float64(b.N), what)
		}
	}
	b.ReportMetric(took["restart"], "ms/restart")
	b.ReportMetric(float64(grown)/float64(b.N), "KiB/volume")
	b.ReportMetric(float64(driver), "KiB-of-the-driver")
}

// memory is the resident memory of a process, in KiB.
func memory(b *testing.B, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return n
}
