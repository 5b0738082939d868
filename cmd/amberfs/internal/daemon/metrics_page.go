package daemon

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/process"
)

// A metricsPage collects metrics in the text format of Prometheus. All values of one metric must be added in a row.
type metricsPage struct {
	bytes.Buffer
	lastName string // name of the last metric
}

// The kinds of metrics.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// addHeader writes the lines that come before the first value of a metric.
func (p *metricsPage) addHeader(kind, name, help string) {
	if name == p.lastName {
		return
	}
	p.lastName = name
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// add adds a value of a metric of amberfs. label is empty, or the name and the value of a label.
func (p *metricsPage) add(kind, name, help string, v float64, label ...string) {
	name = "amberfs_" + name
	p.addHeader(kind, name, help)
	if len(label) > 0 {
		name += fmt.Sprintf("{%s=%q}", label[0], label[1])
	}
	fmt.Fprintf(p, "%s %v\n", name, v)
}

func (p *metricsPage) addGauge(name, help string, v int64, label ...string) {
	p.add(gauge, name, help, float64(v), label...)
}

func (p *metricsPage) addCounter(name, help string, v int64, label ...string) {
	p.add(counter, name, help, float64(v), label...)
}

func (p *metricsPage) addDurations(name, help, label, value string, d *durationHistogram) {
	name = "amberfs_" + name
	p.addHeader(histogram, name, help)

	n, last := int64(0), len(d.buckets)-1
	for i := range last {
		n += d.buckets[i].Load()
		fmt.Fprintf(p, "%s_bucket{%s=%q,le=\"%v\"} %d\n", name, label, value, (time.Microsecond << i).Seconds(), n)
	}

	n += d.buckets[last].Load()
	fmt.Fprintf(p, "%s_bucket{%s=%q,le=\"+Inf\"} %d\n", name, label, value, n)
	fmt.Fprintf(p, "%s_sum{%s=%q} %v\n", name, label, value, time.Duration(d.sumNs.Load()).Seconds())
	fmt.Fprintf(p, "%s_count{%s=%q} %d\n", name, label, value, n)
}

// addUnprefixed adds a metric without the prefix amberfs_, because other programs have a metric with this name, too.
func (p *metricsPage) addUnprefixed(kind, name, help string, v float64) {
	p.addHeader(kind, name, help)
	fmt.Fprintf(p, "%s %v\n", name, v)
}

// addProcess adds the metrics that Prometheus's own clients have for a process.
func (p *metricsPage) addProcess() {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) == nil {
		cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
		p.addUnprefixed(counter, "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu.Seconds())
	}

	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		p.addUnprefixed(gauge, "process_max_fds", "Maximum number of open file descriptors.", float64(limit.Cur))
	}
	if unix.Getrlimit(unix.RLIMIT_AS, &limit) == nil {
		p.addUnprefixed(gauge, "process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.", float64(limit.Cur))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		p.addUnprefixed(gauge, "process_open_fds", "Number of open file descriptors.", float64(len(open)-1)) // without the descriptor of /proc/self/fd itself
	}

	var virtual, resident float64 // in pages
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscan(string(statm), &virtual, &resident)
		p.addUnprefixed(gauge, "process_virtual_memory_bytes", "Virtual memory size in bytes.", virtual*float64(os.Getpagesize()))
		p.addUnprefixed(gauge, "process_resident_memory_bytes", "Resident memory size in bytes.", resident*float64(os.Getpagesize()))
	}

	var up unix.Timespec
	if self, err := process.StatOf(os.Getpid()); err == nil && unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) == nil {
		age := time.Duration(up.Nano()) - time.Duration(self.Start)*time.Second/100
		p.addUnprefixed(gauge, "process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(time.Now().Add(-age).UnixMilli())/1000)
	}
}

// addRuntime adds the metrics that Prometheus's client has for the Go runtime.
func (p *metricsPage) addRuntime() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.addHeader(gauge, "go_info", "Information about the Go environment.")
	fmt.Fprintf(p, "go_info{version=%q} 1\n", runtime.Version())
	p.addUnprefixed(gauge, "go_goroutines", "Number of goroutines that currently exist.", float64(runtime.NumGoroutine()))
	p.addUnprefixed(gauge, "go_threads", "Number of OS threads created.", float64(pprof.Lookup("threadcreate").Count()))
	p.addHeader("summary", "go_gc_duration_seconds", "The wall-time pauses (stop-the-world) in garbage collection cycles.")
	fmt.Fprintf(p, "go_gc_duration_seconds_sum %v\ngo_gc_duration_seconds_count %d\n", time.Duration(m.PauseTotalNs).Seconds(), m.NumGC)

	for _, c := range []struct {
		kind, name, help string
		n                uint64
	}{
		{gauge, "alloc_bytes", "Number of bytes allocated in heap and currently in use.", m.Alloc},
		{counter, "alloc_bytes_total", "Total number of bytes allocated in heap until now, even if released already.", m.TotalAlloc},
		{counter, "frees_total", "Total number of heap objects frees.", m.Frees},
		{counter, "mallocs_total", "Total number of heap objects allocated, both live and gc-ed.", m.Mallocs},
		{gauge, "buck_hash_sys_bytes", "Number of bytes used by the profiling bucket hash table.", m.BuckHashSys},
		{gauge, "gc_sys_bytes", "Number of bytes used for garbage collection system metadata.", m.GCSys},
		{gauge, "heap_alloc_bytes", "Number of heap bytes allocated and currently in use.", m.HeapAlloc},
		{gauge, "heap_idle_bytes", "Number of heap bytes waiting to be used.", m.HeapIdle},
		{gauge, "heap_inuse_bytes", "Number of heap bytes that are in use.", m.HeapInuse},
		{gauge, "heap_objects", "Number of currently allocated objects.", m.HeapObjects},
		{gauge, "heap_released_bytes", "Number of heap bytes released to OS.", m.HeapReleased},
		{gauge, "heap_sys_bytes", "Number of heap bytes obtained from system.", m.HeapSys},
		{gauge, "last_gc_time_seconds", "Number of seconds since 1970 of last garbage collection.", m.LastGC / 1e9},
		{gauge, "mcache_inuse_bytes", "Number of bytes in use by mcache structures.", m.MCacheInuse},
		{gauge, "mcache_sys_bytes", "Number of bytes used for mcache structures obtained from system.", m.MCacheSys},
		{gauge, "mspan_inuse_bytes", "Number of bytes in use by mspan structures.", m.MSpanInuse},
		{gauge, "mspan_sys_bytes", "Number of bytes used for mspan structures obtained from system.", m.MSpanSys},
		{gauge, "next_gc_bytes", "Number of heap bytes when next garbage collection will take place.", m.NextGC},
		{gauge, "other_sys_bytes", "Number of bytes used for other system allocations.", m.OtherSys},
		{gauge, "stack_inuse_bytes", "Number of bytes in use by the stack allocator.", m.StackInuse},
		{gauge, "stack_sys_bytes", "Number of bytes obtained from system for stack allocator.", m.StackSys},
		{gauge, "sys_bytes", "Number of bytes obtained from system.", m.Sys},
	} {
		p.addUnprefixed(c.kind, "go_memstats_"+c.name, c.help, float64(c.n))
	}
}
