package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestBelowAnOverlay: below an overlay the control files do nothing. The command, the server for MCP
// and both clients fail there, with the reason.
func TestBelowAnOverlay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it mounts an overlay")
	}
	harness.SkipWithout(t, "python3")
	harness.SkipWithout(t, "node")
	m := harness.New(t, "-o", "allow_other")
	dir := t.TempDir()
	upper, work, at := filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "at")
	for _, d := range []string{upper, work, at} {
		must.OK(t, os.Mkdir(d, 0o755))
	}
	must.OK(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "")) // an overlay's layers are not on an overlay
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for _, d := range []string{upper, work, at} {
		must.OK(t, os.Mkdir(d, 0o755))
	}
	must.OK(t, unix.Mount("overlay", at, "overlay", 0, "lowerdir="+m.Dir+",upperdir="+upper+",workdir="+work))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })

	clientsDir, err := filepath.Abs(clients)
	must.OK(t, err)
	amberfs := harness.Binary(t)
	for what, cmd := range map[string]*exec.Cmd{
		"amberfs status": exec.Command(amberfs, "-C", at, "status"),
		"amberfs mcp":    exec.Command(amberfs, "-C", at, "mcp"),
		"Python":         exec.Command("python3", "-c", "import amberfs; amberfs.Workspace.open('"+at+"')"),
		"TypeScript":     exec.Command("node", "--input-type=module", "-e", "import { Workspace } from '"+clientsDir+"/typescript/src/index.js'; await Workspace.open('"+at+"')"),
	} {
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(clientsDir, "python"), "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), "is an overlay over an amberfs workspace") || err == nil {
			t.Errorf("%s below an overlay: %v\n%s", what, err, out)
		}
	}
}
