package daemon

//go:generate go test -run TestMetricsPage -count=1 . -update

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/tests/must"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

// TestMetricsPage compares docs/reference/metrics.md with the metrics that are registered.
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Metrics\n\nGenerated from the code. `-o metrics=HOST:PORT` serves these for Prometheus at `/metrics`, beside the metrics of the process and the Go runtime. They contain sizes and counts, no names of files and no contents. Anybody who can reach the address can read them.\n\n|metric|meaning|\n|---|---|\n")
	m := newMetrics(nil, nil, nil, nil)
	m.addRequest(fusefs.AnsweredRequest{Op: "READ"})
	p := &metricsPage{}
	p.addStore(map[string]uint64{"READ": 1}, info.Status{}, service.Survival{})
	p.addRequests(m)
	parts := regexp.MustCompile(`# HELP (\S+) (.*)\n# TYPE .*\n\w+(?:\{(\w+)=)?`)
	for _, m := range parts.FindAllStringSubmatch(p.String(), -1) {
		labels := ""
		if m[3] != "" {
			labels = "{" + m[3] + "}"
		}
		fmt.Fprintf(&b, "|`%s%s`|%s|\n", m[1], labels, m[2])
	}
	const file = "../../../../docs/reference/metrics.md"
	if *update {
		must.OK(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s differs from the code (%v): run go generate ./cmd/amberfs/internal/daemon", file, err)
	}
}
