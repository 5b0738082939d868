package arch_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// replaced is a configuration of git that `git config --global` replaces by rename: as root, it makes
// a regular file of the machine's /dev/null. Below /dev/null there can be none.
var replaced = regexp.MustCompile(`GIT_CONFIG_(GLOBAL|SYSTEM)(=["']?|", ?")/dev/null(["'\s]|$)|GIT_CONFIG_(GLOBAL|SYSTEM)["=, +]+os\.DevNull|` +
	`git config (-f|--file)[= ]/dev/null|HISTFILE["=: ]+/dev/null`)

// TestDevicesStay: no program and no script gives git or a shell a device as a file to write.
func TestDevicesStay(t *testing.T) {
	top := filepath.Join("..", "..")
	must.OK(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules", "results"}, d.Name()) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || strings.HasSuffix(path, "devices_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if found := replaced.Find(text); err == nil && found != nil {
			t.Errorf("%s: %s", path, found)
		}
		return err
	}))
}
