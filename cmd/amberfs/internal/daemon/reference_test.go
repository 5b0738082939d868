package daemon

//go:generate go test -run TestMetricsPage -count=1 . -update

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/tests/must"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

// TestMetricsPage compares docs/reference/metrics.md with the metrics that are registered.
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Metrics\n\nGenerated from the code. `-o metrics=HOST:PORT` serves these for Prometheus at `/metrics`, beside the metrics of the process and the Go runtime. They contain sizes and counts, no names of files and no contents. Anybody who can reach the address can read them.\n\n|metric|meaning|\n|---|---|\n")
	parts := regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)".*constLabels: {}, variableLabels: {([^}]*)}`)
	all, ch := make(chan prometheus.Metric, 100), make(chan *prometheus.Desc, 100)
	collect(all, map[string]uint64{"READ": 1}, info.Status{}, service.Survival{})
	close(all)
	for one := range all {
		ch <- one.Desc()
	}
	m := newMetrics(nil, nil, nil, nil)
	for _, c := range []prometheus.Collector{m.took, m.read, m.written} {
		c.Describe(ch)
	}
	close(ch)
	seen := map[string]bool{}
	for d := range ch {
		if seen[d.String()] {
			continue
		}
		seen[d.String()] = true
		p := parts.FindStringSubmatch(d.String())
		if p == nil {
			t.Fatal(d)
		}
		labels := ""
		if p[3] != "" {
			labels = "{" + p[3] + "}"
		}
		fmt.Fprintf(&b, "|`%s%s`|%s|\n", p[1], labels, p[2])
	}
	const file = "../../../../docs/reference/metrics.md"
	if *update {
		must.OK(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s differs from the code (%v): run go generate ./cmd/amberfs/internal/daemon", file, err)
	}
}
