package arch_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/arch"
	"github.com/amberfs/amberfs/tests/must"
)

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// TestSkipsAreOfTests: what the list names exists.
func TestSkipsAreOfTests(t *testing.T) {
	for name, reason := range arch.MaySkip {
		pkg, test, _ := strings.Cut(name, " ")
		test, _, _ = strings.Cut(test, "/")
		files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*_test.go"))
		must.OK(t, err)
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			must.OK(t, err)
			for _, match := range testFunction.FindAllSubmatch(text, -1) {
				ok, err := path.Match(test, string(match[1]))
				must.OK(t, err)
				found = found || ok
			}
		}
		if !found || reason == "" {
			t.Errorf("there is no test %s in %s, or no reason for it", test, pkg)
		}
	}
}
