package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/amberfs/amberfs/tests/harness"
)

// asSnapshotter makes the test binary the snapshotter.
const asSnapshotter = "AMBERFS_TEST_AS_SNAPSHOTTER"

// A server is a process that this test starts, kills and starts again.
type server struct {
	t    *testing.T
	args []string
	env  []string
	up   func() bool
	cmd  *exec.Cmd
}

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Env = append(os.Environ(), s.env...)
	log, err := os.OpenFile(filepath.Join(s.t.TempDir(), "log"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	harness.Eventually(s.t, s.args[0]+" answers", s.up)
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func started(t *testing.T, up func() bool, env []string, args ...string) *server {
	t.Helper()
	s := &server{t: t, args: args, env: env, up: up}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func dials(network, address string) func() bool {
	return func() bool {
		c, err := net.Dial(network, address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
}

// TestContainerd: the installed containerd, and the containerd that scripts/setup builds, pull an image of two layers,
// run it, and continue after they and the snapshotter were killed. A container restores its own root directory, and
// becomes a layer of an image. When all images and containers are deleted, no fork is left.
func TestContainerd(t *testing.T) {
	harness.SkipWithout(t, "containerd", "ctr", "runc", "docker-registry", "skopeo", "busybox")
	t.Run("installed", containerd)
	t.Run("current", func(t *testing.T) {
		dir, err := filepath.Abs("../../bin/containerd")
		if err != nil {
			t.Fatal(err)
		}
		harness.SkipWithout(t, filepath.Join(dir, "containerd")) // scripts/setup cluster builds it
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		containerd(t)
	})
}

func containerd(t *testing.T) {
	m := harness.New(t, "-o", "allow_other,dev,suid")
	dir := filepath.Dir(m.Store)
	socket, address := filepath.Join(dir, "amberfs.sock"), filepath.Join(dir, "containerd.sock")
	put(t, filepath.Join(dir, "containerd.toml"), fmt.Appendf(nil, `
version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
[proxy_plugins.amberfs]
  type = "snapshot"
  address = %q
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
  platform = "linux/%s"
  snapshotter = "amberfs"
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), address, socket, runtime.GOARCH))
	ctr := func(args ...string) (string, error) {
		cmd := exec.Command("ctr", append([]string{"-a", address}, args...)...)
		var warnings strings.Builder
		cmd.Stderr = &warnings
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &warnings)
		}
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := ctr(args...)
		if err != nil {
			t.Fatalf("ctr %q: %v\n%s", args, err, out)
		}
		return out
	}
	snapshotter := started(t, dials("unix", socket), []string{asSnapshotter + "=1"},
		os.Args[0], "-store", m.Store, "-root", filepath.Join(dir, "meta"), "-socket", socket)
	daemon := started(t, func() bool { _, err := ctr("version"); return err == nil }, nil,
		"containerd", "-c", filepath.Join(dir, "containerd.toml"))
	image := registryWithImage(t, dir)

	must("images", "pull", "--plain-http", "--snapshotter", "amberfs", image)
	must("run", "-d", "--snapshotter", "amberfs", image, "c", "/bin/busybox", "sleep", "100000")
	t.Cleanup(func() { _, _ = ctr("task", "rm", "-f", "c") })
	run := func(script string) string {
		t.Helper()
		return strings.TrimSpace(must("task", "exec", "--exec-id", "e", "c", "/bin/sh", "-c", script))
	}
	if got := run("busybox ls /etc/one /etc/two 2>&1 | busybox grep -v No; busybox mkdir /.snapshots/v; busybox rm /etc/two"); got != "/etc/two" {
		t.Errorf("the image has %q", got)
	}
	snapshotter.kill()
	daemon.kill()
	m.Crash()
	snapshotter.start()
	daemon.start()
	if got := run("busybox mv /.snapshots/restore /.snapshots/restore@v; busybox cat /etc/two"); got != "2" {
		t.Errorf("after going back the file has %q", got)
	}
	run("busybox touch /etc/three")
	must("task", "rm", "-f", "c")
	must("snapshots", "--snapshotter", "amberfs", "commit", "saved", "c")
	layer := must("snapshots", "--snapshotter", "amberfs", "diff", "--media-type", ocispec.MediaTypeImageLayer, "saved")
	if !strings.Contains(layer, "etc/three") {
		t.Errorf("the layer of a committed container lacks what was added to it:\n%q", layer)
	}
	must("snapshots", "--snapshotter", "amberfs", "rm", "saved")
	must("containers", "rm", "c")
	must("images", "rm", "--sync", image)
	harness.Eventually(t, "no snapshot is left", func() bool {
		return m.Amberfs("-C", m.Dir, "forks") == "no forks\n"
	})
}

// registryWithImage starts a registry on loopback, and returns the name of an image in it.
func registryWithImage(t *testing.T, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	put(t, filepath.Join(dir, "registry.yml"), fmt.Appendf(nil, `
version: 0.1
storage: {filesystem: {rootdirectory: %s}}
http: {addr: %s}
`, filepath.Join(dir, "registry"), at))
	started(t, dials("tcp", at), nil, "docker-registry", "serve", filepath.Join(dir, "registry.yml"))
	writeImage(t, filepath.Join(dir, "image"))
	name := at + "/box:1"
	out, err := exec.Command("skopeo", "copy", "--dest-tls-verify=false", "oci:"+filepath.Join(dir, "image")+":1", "docker://"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("skopeo: %v\n%s", err, out)
	}
	return name
}
