package actors

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestAlternation: between two programs that append to one log there are few snapshots, not
// one for each change of hands, and the file is by both. The row "beside-writer" of the
// benchmarks has what that costs.
func TestAlternation(t *testing.T) {
	m := harness.New(t)
	const writers = 2
	n := harness.Count(t, "WRITES", 2000, 100_000)
	var wait sync.WaitGroup
	for range writers {
		cmd := exec.Command("sh", "-c", `i=0; while [ $i -lt $1 ]; do echo "a line of a log" >&3; i=$((i+1)); done 3>>log`, "sh", fmt.Sprint(n))
		cmd.Dir = m.Dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL} // another actor
		wait.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a writer: %v: %s", err, out)
			}
		})
	}
	wait.Wait()
	snapshots := strings.Count(m.Amberfs("list", "--all", "--kind", "actor"), "\n")
	t.Logf("%d snapshots between %d writes", snapshots, writers*n)
	if snapshots == 0 || snapshots > writers*n/20 {
		t.Errorf("%d snapshots between %d writes of two actors", snapshots, writers*n)
	}
	m.Amberfs("snapshot", "last")
	var info struct{ Actors []string }
	must.OK(t, json.Unmarshal([]byte(m.Amberfs("show", "last", "--json")), &info))
	if len(info.Actors) < 1 {
		t.Errorf("the actors of the log are %v", info.Actors)
	}
}
