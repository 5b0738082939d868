package survive_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestForgetAfterACrash: what the kernel forgets after a crash takes no memory any more.
func TestForgetAfterACrash(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes the kernel forget")
	}
	m := newMount(t)
	const dirs, files = 10, 100
	for i := range dirs {
		must.OK(t, os.Mkdir(m.Path(fmt.Sprint("d", i)), 0o755))
		for j := range files {
			must.OK(t, os.WriteFile(m.Path(fmt.Sprintf("d%d/f%d", i, j)), nil, 0o644))
		}
	}
	open, err := os.Create(m.Path("open"))
	must.OK(t, err)
	defer open.Close()
	held := func() (nodes int) {
		var status struct{ Requests map[string]int }
		must.OK(t, json.Unmarshal([]byte(m.Amberfs("status", "--json")), &status))
		return status.Requests["NODES"]
	}
	for range 2 {
		must.OK(t, syscall.Kill(m.Pid(), syscall.SIGKILL))
		must.OK(t, filepath.WalkDir(m.Dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil {
				_, err = os.Lstat(path)
			}
			return err
		}))
		if n := held(); n <= dirs { // the kernel knows most of them without a request
			t.Errorf("%d nodes after a walk", n)
		}
		n := 0
		if !harness.Poll(func() bool {
			must.OK(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
			n = held()
			return n < dirs
		}) {
			t.Errorf("%d nodes after the kernel forgot them", n)
		}
	}
	must.OK(t, os.Remove(m.Path("open")))
	if _, err := open.WriteString("still there"); err != nil {
		t.Error(err)
	}
}
