package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

// attack is a script that root of a pod runs in the volume that is its root directory. VICTIM is the id of another
// volume, SNAP is the id of a snapshot of that volume, and REMOTE is the remote to which that snapshot was pushed.
const attack = `
exec 2>&1
for up in .. .snapshots/.. .snapshots/../.. .forks/.. .forks/../..; do
	cat /$up/secret /$up/.forks/VICTIM/secret
	ls /$up/.forks/VICTIM
	echo overwritten > /$up/.forks/VICTIM/secret
done
mkdir /.snapshots/mine
for name in VICTIM/base VICTIM/now SNAP/content SNAP VICTIM ../VICTIM/base REMOTE@SNAP label:csi=SNAP; do
	echo "$name f" > /.snapshots/fork
	cat /.forks/f/secret
	echo "$name" > /.snapshots/restore
	cat /secret
	echo "{\"op\":\"fork\",\"name\":\"g\",\"snapshot\":\"$name\"}" > /.snapshots/call
	cat /.forks/g/secret /.snapshots/call
done
for request in '"forks"' '"list"' '"status"' '"remotes"' '"delete-fork","name":"VICTIM","discard":true' '"remove","names":["VICTIM","SNAP"]' \
	'"rename-fork","name":"VICTIM","to":"x"' '"merge","fork":"VICTIM"' '"pull","remote":"REMOTE","snapshots":["SNAP"]' \
	'"add-remote","name":"x","url":"REMOTE"' '"set-policy","patch":{"unshared_bytes":0}'; do
	echo "{\"op\":$request}" > /.snapshots/call
	cat /.snapshots/call
done
mkdir /.forks/VICTIM /.snapshots/SNAP
echo other > /.forks/VICTIM/secret
for target in REMOTE SNAP VICTIM ""; do
	echo "mine $target" > /.snapshots/push && echo PUSHED
done
ln -s /proc/1/root /link
find /
`

// TestFromInside: root of a pod can neither change nor read another volume, a snapshot of it, or a record of the driver.
func TestFromInside(t *testing.T) {
	harness.SkipWithout(t, "busybox")
	p := start(t, "node1")
	class := map[string]string{remoteParameter: "file://" + filepath.Join(t.TempDir(), "remote")}
	write(t, p.Path("secret"), "SECRET")
	victim := p.create("victim", nil, class)
	other := p.publish(victim, writer, nil)
	write(t, filepath.Join(other, "secret"), "SECRET")
	write(t, filepath.Join(other, "a file of the victim"), "x")
	snap := p.snapshot("snap", victim)
	p.unpublish(victim)
	pod := p.create("pod", nil, class)
	at := p.publish(pod, writer, nil)
	if err := os.Remove(filepath.Join(at, "secret")); err != nil {
		t.Fatal(err)
	}
	before := p.Amberfs("-C", p.Dir, "list")
	want := harness.ReadTree(t, p.Path(".forks", victim))

	if out, err := exec.Command("cp", "/bin/busybox", at).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	cmd := exec.Command("/busybox", "sh", "-c", strings.NewReplacer("VICTIM", victim, "SNAP", snap, "REMOTE", class[remoteParameter]).Replace(attack))
	cmd.Dir, cmd.Env = "/", []string{"PATH=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: at, Pdeathsig: syscall.SIGKILL}
	out, _ := cmd.CombinedOutput()
	if strings.Contains(string(out), "SECRET") || strings.Contains(string(out), "a file of the victim") || strings.Contains(string(out), "PUSHED") {
		t.Errorf("it gets what is of others:\n%s", out)
	}
	if !strings.Contains(string(out), "/.snapshots") {
		t.Errorf("the attack did not run:\n%s", out)
	}
	if got := p.Amberfs("-C", p.Dir, "list"); got != before {
		t.Errorf("main had\n%s\nand has\n%s", before, got)
	}
	harness.CheckSameTree(t, "another volume", want, harness.ReadTree(t, p.Path(".forks", victim)))
	wantFile(t, filepath.Join(p.publish(p.create("again", fromSnapshot(snap), class), writer, nil), "secret"), "SECRET")
}
