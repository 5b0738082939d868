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

// restricted restores a volume in a pod of a namespace that enforces Pod Security "restricted".
func (c *cluster) restricted() {
	c.t.Helper()
	c.kubectl("create", "namespace", "restricted")
	c.kubectl("label", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted")
	c.kubectl("-n", "restricted", "wait", "serviceaccount/default", "--for=create", "--timeout=5m") // pods need it

	other := exec.Command("kubectl", "-n", "restricted", "run", "other", "--image=box:test", "--dry-run=server")
	if out, err := other.CombinedOutput(); err == nil || !strings.Contains(string(out), `violates PodSecurity "restricted`) {
		c.t.Errorf("a pod that may be root is not refused: %v, %s", err, out)
	}

	c.apply("restricted.yaml")
	c.kubectl("-n", "restricted", "wait", "pod/work", "--for=condition=Ready", "--timeout=5m")
	if got := c.kubectl("-n", "restricted", "exec", "work", "--", "/usr/bin/busybox", "sh", "-c", undo); got != "one\ntwo\nthree\ntwo" {
		c.t.Errorf("a pod that is not root restored, undid and forked %q", got)
	}
	c.kubectl("delete", "namespace", "restricted", "--timeout=5m")
}
