package packages_test

import (
	"strings"
	"testing"
)

// TestDeb installs the Debian package, mounts by /etc/fstab, and removes it.
func TestDeb(t *testing.T) {
	wanted(t)
	deb := mine(t, "deb")
	if out := runWith(t, ".", []string{"TMPDIR=" + t.TempDir()}, "lintian", "--fail-on", "error", "--suppress-tags", "bad-distribution-in-changes-file", deb); out != "" {
		t.Logf("lintian, no errors:\n%s", out)
	}
	out := inRoot(t, "deb", deb, "testdata/complete")
	if !strings.Contains(out, "removed without a trace") {
		t.Errorf("the script did not come to its end:\n%s", out)
	}
}

// TestUnits boots a systemd that has the package, and lets it mount.
func TestUnits(t *testing.T) {
	wanted(t)
	out := inRoot(t, "systemd", mine(t, "deb"))
	if !strings.HasSuffix(out, "\nthe units work\n") {
		t.Errorf("the script did not come to its end:\n%s", out)
	}
}
