package model_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestConformance tests each operation with its corners through the kernel.
func TestConformance(t *testing.T) {
	m, trees := harness.New(t), 0
	fsmodel.Conformance(t, func(t *testing.T) fsmodel.System {
		trees++
		dir := m.Path(fmt.Sprint("tree", trees))
		must.OK(t, os.Mkdir(dir, 0o755))
		return fsmodel.Dir(dir)
	})
}
