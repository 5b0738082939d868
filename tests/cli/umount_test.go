package cli_test

import (
	"archive/tar"
	"fmt"
	"os/exec"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUmountOfManyFiles: the kernel takes seconds to drop a million inodes, and umount is
// answered all the same.
func TestUmountOfManyFiles(t *testing.T) {
	if !harness.LongTests() {
		t.Skip("make test-long runs it")
	}
	m := harness.New(t)
	imports := exec.Command(harness.Binary(t), "-C", m.Path(), "import", "--tar", "-")
	in, err := imports.StdinPipe()
	must.OK(t, err)
	must.OK(t, imports.Start())
	w := tar.NewWriter(in)
	for i := range 1_000_000 {
		must.OK(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d/%d", i/1000, i), Mode: 0o644}))
	}
	must.OK(t, w.Close())
	must.OK(t, in.Close())
	must.OK(t, imports.Wait())
	must.OK(t, exec.Command("find", m.Path(), "-size", "+1M").Run())
	m.Stop()
}
