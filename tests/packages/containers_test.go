package packages_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestContainers runs the image of the Dockerfile with podman: from scratch and
// with busybox, where the host mounts and where the container does, as root and
// as an ordinary user with the device alone.
func TestContainers(t *testing.T) {
	wanted(t)
	argv := []string{"unshare", "--mount", "bash", "tests/packages/testdata/containers", static(t, runtime.GOARCH), "/bin/busybox"}
	if os.Geteuid() != 0 {
		argv = append([]string{"sudo", "-n", "env", "PATH=" + os.Getenv("PATH")}, argv...)
	}
	if out := run(t, top(t), argv...); !strings.Contains(out, "\nthe image works\n") {
		t.Errorf("the script did not come to its end:\n%s", out)
	}
}

// TestPackageFiles: the packages for other systems have the same files as the
// one that TestDeb uses.
func TestPackageFiles(t *testing.T) {
	wanted(t)
	lists := map[string]string{
		"rpm": run(t, ".", "rpm", "-qpl", mine(t, "rpm")),
		"apk": run(t, ".", "bsdtar", "-tf", mine(t, "apk")),
	}
	for kind, list := range lists {
		for _, want := range []string{
			"usr/bin/amberfs", "usr/sbin/mount.fuse.amberfs", "usr/share/man/man1/amberfs-mount.1.gz",
			"usr/lib/systemd/system/amberfs@.service", "usr/share/doc/amberfs/LICENSE", "usr/share/doc/amberfs/licences.md.gz",
		} {
			if !strings.Contains(list, want+"\n") {
				t.Errorf("the %s has no %s:\n%s", kind, want, list)
			}
		}
	}
	root := t.TempDir()
	run(t, root, "bsdtar", "-xf", mine(t, "apk"))
	if out := run(t, root, filepath.Join(root, "usr/bin/amberfs"), "version"); !strings.HasPrefix(out, "amberfs ") {
		t.Errorf("the program of the apk says %q", out)
	}
}
