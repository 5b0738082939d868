// Package kubernetes tries the CSI driver in a cluster of two nodes, with kubectl. scripts/test-kubernetes
// runs it, in namespaces of its own.
package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// programs is where scripts/setup kubernetes puts what it builds.
const programs = "../../bin/kubernetes"

// A cluster is a directory with its files, and where its programs log.
type cluster struct {
	t   *testing.T
	dir string
}

func TestCluster(t *testing.T) {
	dir := os.Getenv("AMBERFS_TEST_KUBERNETES")
	if dir == "" {
		t.Skip("make test-kubernetes runs it")
	}
	c := begin(t, dir)
	c.kubectl("apply", "-k", "testdata/driver")
	c.kubectl("-n", "amberfs", "wait", "daemonset/amberfs-csi", "--for=jsonpath={.status.numberReady}=2", "--timeout=5m")
	c.apply("work.yaml")
	c.ready("work-0")
	c.writes("a new volume")

	c.snapshot("while-it-writes")
	c.resume("clone", "node1", "while-it-writes")
	c.ordered("clone")

	before := c.lines("work-0")
	c.kubectl("delete", "pod", "work-0")
	c.ready("work-0")
	if after := c.lines("work-0"); after < before {
		t.Errorf("%d lines were there before the pod was deleted, and %d after", before, after)
	}
	c.writes("a pod that came back")

	daemon := c.daemon("node1")
	must.OK(t, syscall.Kill(daemon, syscall.SIGKILL))
	harness.Eventually(t, "another daemon runs", func() bool { pid := c.daemon("node1"); return pid != 0 && pid != daemon })
	c.writes("a pod whose node's daemon was killed")

	copied(t, harness.Binary(t), filepath.Join(c.dir, "node1/var/lib/amberfs/next/amberfs"))
	c.kubectl("-n", "amberfs", "exec", c.driverOn("node1"), "-c", "amberfs", "--", "/usr/bin/amberfs", "-C", "/var/lib/amberfs/mnt", "upgrade", "/var/lib/amberfs/next/amberfs")
	if file, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.daemon("node1"))); !strings.HasSuffix(file, "next/amberfs") {
		t.Errorf("after the upgrade the daemon is %s, %v", file, err)
	}
	c.writes("a pod whose node's daemon was upgraded")
	if n := c.kubectl("get", "pod", "work-0", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"); n != "0" {
		t.Errorf("the pod was restarted %s times", n)
	}

	c.kubectl("-n", "amberfs", "delete", "pod", c.driverOn("node1"))
	c.kubectl("delete", "pod", "work-0")
	c.ready("work-0")
	c.writes("a pod that was deleted after that of the driver")

	sum := c.sum("work-0")
	c.kubectl("scale", "statefulset/work", "--replicas=0")
	c.kubectl("wait", "pod/work-0", "--for=delete", "--timeout=5m")
	c.snapshot("suspended")
	c.resume("resumed", "node2", "suspended")
	c.ordered("resumed")
	if n := c.stored("node2"); n >= large {
		t.Errorf("node2 has %d bytes before the %d of a file were read", n, large)
	}
	if got := c.sum("resumed"); got != sum {
		t.Errorf("the file is %s on node1 and %s on node2", sum, got)
	}

	c.restricted()
	c.kubectl("delete", "statefulset,pod,pvc,volumesnapshot", "--all", "--timeout=5m")
	harness.Eventually(t, "volumes and snapshots are deleted", func() bool {
		return c.kubectl("get", "pv,volumesnapshotcontent", "-o", "name") == ""
	})
}

// large is how many bytes /data/large has.
const large = 32 << 20

// begin starts a cluster in a directory, and waits until its nodes are ready.
func begin(t *testing.T, dir string) *cluster {
	c := &cluster{t: t, dir: dir}
	path, err := filepath.Abs(programs)
	must.OK(t, err)
	bucket := filepath.Join(dir, "s3")
	must.OK(t, os.MkdirAll(filepath.Join(bucket, "amber"), 0o755))
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	t.Setenv("KUBECACHEDIR", filepath.Join(dir, "cache"))
	t.Setenv("KUBECONFIG", filepath.Join(dir, "admin.conf"))
	writeImages(t, filepath.Join(dir, "images"), path)
	t.Cleanup(func() {
		if logs, _ := filepath.Glob(filepath.Join(dir, "*.log")); t.Failed() {
			out, _ := exec.Command("tail", append([]string{"-n", "20"}, logs...)...).CombinedOutput()
			t.Logf("%s", out)
		}
	})
	c.start("testdata/cluster", dir)
	harness.Eventually(t, "the API server answers", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	c.start("../../bin/versitygw", "--port", "10.97.0.1:7070", "--access", "testkey", "--secret", "testsecret", "posix", bucket)
	c.start("testdata/node", dir, "1")
	c.start("testdata/node", dir, "2")
	for _, node := range []string{"node/node1", "node/node2"} {
		c.kubectl("wait", node, "--for=create", "--timeout=5m")
		c.kubectl("wait", node, "--for=condition=Ready", "--timeout=5m")
	}
	return c
}

// start starts a program, which is killed when this process ends.
func (c *cluster) start(program string, args ...string) {
	c.t.Helper()
	log, err := os.OpenFile(filepath.Join(c.dir, filepath.Base(program)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must.OK(c.t, err)
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	must.OK(c.t, cmd.Start())
}

// ready waits until a pod runs.
func (c *cluster) ready(pod string) {
	c.t.Helper()
	c.kubectl("wait", "pod/"+pod, "--for=create", "--timeout=5m")
	c.kubectl("wait", "pod/"+pod, "--for=condition=Ready", "--timeout=5m")
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	var failure strings.Builder
	cmd := exec.Command("kubectl", args...)
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("kubectl %q: %v\n%s%s", args, err, out, failure.String())
	}
	return strings.TrimSpace(string(out))
}

// apply applies a manifest of testdata, with words of it replaced.
func (c *cluster) apply(name string, words ...string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	must.OK(c.t, err)
	cmd := exec.Command("kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.NewReplacer(words...).Replace(string(text)))
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("applying %s: %v\n%s", name, err, out)
	}
}

func (c *cluster) snapshot(name string) {
	c.t.Helper()
	c.apply("snapshot.yaml", "NAME", name)
	c.kubectl("wait", "volumesnapshot/"+name, "--for=jsonpath={.status.readyToUse}=true", "--timeout=5m")
}

func (c *cluster) resume(name, node, snapshot string) {
	c.t.Helper()
	c.apply("resume.yaml", "NAME", name, "NODE", node, "SNAPSHOT", snapshot)
	c.ready(name)
}

func (c *cluster) log(pod string) []string {
	c.t.Helper()
	return strings.Fields(c.kubectl("exec", pod, "--", "/usr/bin/busybox", "cat", "/data/log"))
}

// sum is the checksum of the large file that a pod sees.
func (c *cluster) sum(pod string) string {
	c.t.Helper()
	return c.kubectl("exec", pod, "--", "/usr/bin/busybox", "sha256sum", "/data/large")
}

func (c *cluster) lines(pod string) int { c.t.Helper(); return len(c.log(pod)) }

// writes waits until the pod has written.
func (c *cluster) writes(what string) {
	c.t.Helper()
	before := c.lines("work-0")
	harness.Eventually(c.t, what+" is written to", func() bool { return c.lines("work-0") > before })
	c.ordered("work-0")
}

// ordered fails if a pod has other lines than those that were written, in their order.
func (c *cluster) ordered(pod string) {
	c.t.Helper()
	log := c.log(pod)
	if len(log) == 0 {
		c.t.Errorf("%s has no lines", pod)
	}
	for i, line := range log {
		if line != strconv.Itoa(i+1) {
			c.t.Fatalf("line %d of %s is %q", i+1, pod, line)
		}
	}
}

func (c *cluster) driverOn(node string) string {
	c.t.Helper()
	return c.kubectl("-n", "amberfs", "get", "pod", "-l", "app.kubernetes.io/name=amberfs-csi",
		"--field-selector", "spec.nodeName="+node, "-o", "jsonpath={.items[0].metadata.name}")
}
