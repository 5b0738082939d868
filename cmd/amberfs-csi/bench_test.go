package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/tests/remotetest"
)

// BenchmarkVolumes makes and publishes volumes, each a clone of a volume with a file, and then restarts the daemon. The
// flag -benchtime sets the number of volumes: go test -run - -bench Volumes -benchtime 1000x
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

// BenchmarkResume pushes a snapshot of 5,000 files, 50 MB, from one node to S3, and makes a volume of it on other nodes,
// all at once. Each node lists all files and reads 20. The flag -benchtime sets the number of nodes:
// go test -run - -bench Resume -benchtime 100x
func BenchmarkResume(b *testing.B) {
	one := start(b, "node0")
	nodes := make([]*plugin, b.N)
	for i := range nodes {
		b.Setenv("XDG_CACHE_HOME", b.TempDir()) // else they share one
		nodes[i] = start(b, fmt.Sprint("node", i+1))
	}
	b.Setenv("XDG_CACHE_HOME", b.TempDir())
	s3 := remotetest.NewProxy(b, remotetest.S3(b))
	class := map[string]string{remoteParameter: remotetest.S3Prefix(s3.URL, "x")}
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret"}
	create := func(p *plugin, from *csi.VolumeContentSource) (string, error) {
		resp, err := p.controller().CreateVolume(b.Context(), &csi.CreateVolumeRequest{
			Name: "a", VolumeCapabilities: []*csi.VolumeCapability{writer}, VolumeContentSource: from, Parameters: class, Secrets: keys,
		})
		return resp.GetVolume().GetVolumeId(), err
	}
	id := must[string](b)(create(one, nil))
	at := one.publish(id, writer, nil)
	random, file := rand.NewChaCha8([32]byte{}), make([]byte, 10_000)
	for i := range 5000 {
		dir := filepath.Join(at, fmt.Sprint(i/100))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		random.Read(file)
		write(b, filepath.Join(dir, fmt.Sprint(i)), string(file))
	}
	s := one.snapshot("s", id)
	pushed, requests, down := s3.BytesUp.Load(), s3.Requests.Load(), s3.BytesDown.Load()
	b.ResetTimer()
	var g errgroup.Group
	for _, p := range nodes {
		g.Go(func() error {
			id, err := create(p, fromSnapshot(s))
			if err != nil {
				return err
			}
			at := p.Path(forkRoot(id))
			all, err := filepath.Glob(at + "/*/*")
			if err != nil || len(all) != 5000 {
				return fmt.Errorf("there are %d files, %v", len(all), err)
			}
			for _, path := range all[:20] {
				if b, err := os.ReadFile(path); err != nil || len(b) != len(file) {
					return fmt.Errorf("%s: %d bytes, %v", path, len(b), err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(s3.Requests.Load()-requests)/float64(b.N), "requests/node")
	b.ReportMetric(float64(s3.BytesDown.Load()-down)/float64(b.N)/1000, "kB/node")
	b.ReportMetric(float64(pushed)/1e6, "MB-pushed")
	b.ReportMetric(b.Elapsed().Seconds(), "s-until-all-have-read")
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
