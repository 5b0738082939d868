package kubernetes

import (
	"os/exec"
	"strings"
)

// undo is what a pod does that is not root: a restore, its undo and a fork.
const undo = `set -e
cd /data
echo one >f
mkdir .snapshots/s
echo two >f
cat .snapshots/diff@s .snapshots/log >/dev/null
mv .snapshots/restore .snapshots/restore@s
cat f
mv .snapshots/restore .snapshots/restore@undo
cat f
mkdir .forks/x
echo three >.forks/x/f
cat .forks/x/f f
rmdir .forks/x`

// restricted restores a volume in a pod that Pod Security "restricted" allows but for the network.
func (c *cluster) restricted() {
	c.t.Helper()
	c.kubectl("create", "namespace", "restricted")
	c.kubectl("-n", "restricted", "wait", "serviceaccount/default", "--for=create", "--timeout=5m") // pods need it
	c.apply("restricted.yaml")
	c.kubectl("-n", "restricted", "wait", "pod/work", "--for=condition=Ready", "--timeout=5m")
	if got := c.kubectl("-n", "restricted", "exec", "work", "--", "/usr/bin/busybox", "sh", "-c", undo); got != "one\ntwo\nthree\ntwo" {
		c.t.Errorf("a pod that is not root restored, undid and forked %q", got)
	}
	label := exec.Command("kubectl", "label", "--dry-run=server", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted")
	out, err := label.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if _, why, found := strings.Cut(strings.TrimSpace(line), "work: "); found && why != "host namespaces" {
			c.t.Errorf("Pod Security forbids more than the network: %s", line)
		}
	}
	if err != nil || !strings.Contains(string(out), "work: host namespaces") {
		c.t.Errorf("Pod Security was not asked: %v, %s", err, out)
	}
	c.kubectl("delete", "namespace", "restricted", "--timeout=5m")
}
