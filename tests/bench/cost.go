package main

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// cost is what the daemon did for a row.
type cost struct {
	Things   float64            `json:"things"`   // done by the row
	Requests map[string]float64 `json:"requests"` // by kind, in all
	CPU      float64            `json:"cpu"`      // seconds of the daemon, its background work included
	Records  float64            `json:"records"`  // written to the journal
}

// counters are the daemon's figures by the names that it gives them for
// Prometheus; nil of a place that has none.
type counters map[string]float64

func (p place) counters() (counters, error) {
	if p.metrics == "" {
		return nil, nil
	}
	resp, err := http.Get("http://" + p.metrics + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	c := counters{}
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), " "); ok && name != "#" {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				c[name] = v
			}
		}
	}
	return c, nil
}

// freeAddress is one to serve figures at.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (c *cost) add(things int, before, after counters) {
	if after == nil {
		return
	}
	d := func(name string) float64 { return after[name] - before[name] }
	c.Things += float64(things)
	c.CPU += d("process_cpu_seconds_total")
	c.Records += d("amberfs_journal_records_total")
	if c.Requests == nil {
		c.Requests = map[string]float64{}
	}
	for name := range after {
		if op, ok := strings.CutPrefix(name, `amberfs_requests_total{op="`); ok && d(name) > 0 {
			c.Requests[strings.TrimSuffix(op, `"}`)] += d(name)
		}
	}
}

// waiting are requests that a program waits for: the kernel sends FORGET by
// itself and wants no answer.
func (c *cost) waiting() (n float64) {
	for op, k := range c.Requests {
		if op != "FORGET" {
			n += k
		}
	}
	return n
}

// String is what a thing that the row did cost the daemon.
func (c *cost) String() string {
	n := c.waiting()
	if n == 0 {
		return "no requests"
	}
	var kinds []string
	for _, op := range slices.Sorted(maps.Keys(c.Requests)) {
		if c.Requests[op] >= 0.005*c.Things {
			kinds = append(kinds, op+" "+figure(c.Requests[op]/c.Things))
		}
	}
	return fmt.Sprintf("%s requests each: %s; of each %s µs of processors; %s journal records each",
		figure(n/c.Things), strings.Join(kinds, ", "), figure(c.CPU*1e6/n), figure(c.Records/c.Things))
}
