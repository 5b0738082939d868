package harness

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// NPM returns a directory that has copies of files, package.json among them, and what
// that depends on. What npm once brought is kept for the next time. The test is left
// out where npm is not installed or has no network, but not in CI.
func NPM(t testing.TB, name string, files ...string) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	Needs(t, "node", "npm")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "amberfs-test-"+name)
	must(os.MkdirAll(dir, 0o755))
	var wanted []byte
	for _, name := range files {
		data, err := os.ReadFile(name)
		must(err)
		must(os.WriteFile(filepath.Join(dir, name), data, 0o644))
		if name == "package.json" {
			wanted = data
		}
	}
	installed := filepath.Join(dir, "node_modules", ".installed")
	if have, err := os.ReadFile(installed); err == nil && bytes.Equal(have, wanted) {
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
			t.Fatalf("npm cannot bring it: %v\n%s", err, out)
		}
		t.Skipf("npm cannot bring it: %v\n%s", err, out)
	}
	must(os.WriteFile(installed, wanted, 0o644))
	return dir
}
