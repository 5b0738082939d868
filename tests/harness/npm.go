package harness

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// InstallNPM returns a directory with copies of files and with the dependencies of package.json, which is one of the
// files. The directory is kept, and used again by the next test process. InstallNPM skips the test if npm is not
// installed or has no network; in `make test` it fails the test instead.
func InstallNPM(t testing.TB, name string, files ...string) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	SkipWithout(t, "node", "npm")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "amberfs-test-"+name)
	must(os.MkdirAll(dir, 0o755))
	var packageJSON []byte
	for _, name := range files {
		data, err := os.ReadFile(name)
		must(err)
		must(os.WriteFile(filepath.Join(dir, name), data, 0o644))
		if name == "package.json" {
			packageJSON = data
		}
	}
	installed := filepath.Join(dir, "node_modules", ".installed")
	if have, err := os.ReadFile(installed); err == nil && bytes.Equal(have, packageJSON) {
		return dir
	}
	var out []byte
	for range 3 { // a registry may be busy
		install := exec.Command("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline")
		install.Dir = dir
		if out, err = install.CombinedOutput(); err == nil {
			break
		}
	}
	if err != nil {
		if os.Getenv("AMBERFS_TEST_COMPLETE") != "" {
			t.Fatalf("npm cannot install the dependencies: %v\n%s", err, out)
		}
		t.Skipf("npm cannot install the dependencies: %v\n%s", err, out)
	}
	must(os.WriteFile(installed, packageJSON, 0o644))
	return dir
}
