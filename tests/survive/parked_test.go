package survive_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestFrozenWriters: 300 writers wait for the end of a freeze, with all that they do and without
// memory of their own. Others go on.
func TestFrozenWriters(t *testing.T) {
	m := newMount(t)
	const many = 300
	for i := range many {
		must.OK(t, os.Mkdir(m.Path(fmt.Sprint("d", i)), 0o755))
	}
	must.OK(t, os.Mkdir(m.Path("quiet"), 0o755))
	must.OK(t, os.WriteFile(m.Path("quiet/f"), []byte("quiet"), 0o644))
	resident := func() (kb int) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Pid()))
		must.OK(t, err)
		_, rest, _ := strings.Cut(string(b), "RssAnon:")
		kb, err = strconv.Atoi(strings.Fields(rest)[0])
		must.OK(t, err)
		return kb
	}
	before := resident()
	m.Amberfs("freeze", "--for", "10m")
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			for _, name := range []string{"a", "b"} {
				if err := os.WriteFile(m.Path(fmt.Sprint("d", i), name), []byte(name), 0o644); err != nil {
					t.Error(err)
				}
			}
		})
	}
	harness.Eventually(t, "all writers wait", func() bool { return waiting(t) == many })
	for range 3 {
		if _, err := os.ReadDir(m.Path("quiet")); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(m.Path("quiet/f")); err != nil || string(b) != "quiet" {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := os.Lstat(m.Path("none")); !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	if after := resident(); after-before > 100<<10 {
		t.Errorf("%d KiB more in memory", after-before)
	}
	m.Amberfs("thaw")
	all.Wait()
	if after := resident(); after-before > 100<<10 {
		t.Errorf("%d KiB more in memory afterwards", after-before)
	}
	for i := range many {
		if b, err := os.ReadFile(m.Path(fmt.Sprint("d", i), "b")); err != nil || string(b) != "b" {
			t.Errorf("d%d/b has %q, %v", i, b, err)
		}
	}
}

// waiting counts the threads of this process that wait for answers of a mount.
func waiting(t *testing.T) (n int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	must.OK(t, err)
	for _, task := range tasks {
		if b, err := os.ReadFile("/proc/self/task/" + task.Name() + "/wchan"); err == nil && strings.HasPrefix(string(b), "request_wait") {
			n++
		}
	}
	return n
}
