package crash_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// `amberfs run --from DIR`, its daemon and the program are killed all at once: what the
// program was told is written is in the store.
func TestKillRun(t *testing.T) {
	seed := harness.NumberFromEnv(t, "SEED", uint64(time.Now().UnixNano()))
	t.Logf("SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range harness.Count(t, "ROUNDS", 3, 100) {
		t.Run(fmt.Sprint(round), func(t *testing.T) { runAndKill(t, rng) })
	}
}

// The program of runAndKill writes line i to own/i or, each third time, over a file of the
// source, and then prints i.
const keepsWriting = `
mkdir own
for i in $(seq 100000); do
	if [ $((i % 3)) = 0 ]; then file=$((i % 7))/$i; else file=own/$i; fi
	echo $i >$file && echo $i
done`

func runAndKill(t *testing.T, rng *rand.Rand) {
	src, tmp, told := filepath.Join(t.TempDir(), "src"), t.TempDir(), filepath.Join(t.TempDir(), "told")
	files := make(map[string][]byte)
	for i := range 300 {
		b := make([]byte, rng.IntN(100_000)+10)
		for j := 0; j+8 <= len(b); j += 8 {
			binary.LittleEndian.PutUint64(b[j:], rng.Uint64())
		}
		name := fmt.Sprintf("%d/%d", i%7, i)
		p := filepath.Join(src, name)
		must.OK(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must.OK(t, os.WriteFile(p, b, 0o644))
		files[name] = b
	}
	log, err := os.Create(told)
	must.OK(t, err)
	cmd := exec.Command(harness.Binary(t), "run", "--from", src, "--", "sh", "-c", keepsWriting)
	cmd.Env = append(os.Environ(), "AMBERFS_RUNS="+tmp)
	cmd.Stdout = log
	must.OK(t, cmd.Start())
	harness.Eventually(t, "the program writes", func() bool {
		st, err := log.Stat()
		return err == nil && st.Size() > 0
	})
	time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
	all := descendants(cmd.Process.Pid)
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // a stopped keeper starts no other daemon
		for _, pid := range all {
			_ = unix.Kill(pid, sig) // one of them may have ended after another
		}
	}
	_ = cmd.Wait()
	must.OK(t, log.Close())

	stores, err := filepath.Glob(filepath.Join(tmp, "src-*"))
	if must.OK(t, err); len(stores) != 1 {
		t.Fatalf("stores: %q", stores)
	}
	harness.Eventually(t, "all have ended", func() bool { return len(harness.Processes(tmp)) == 0 })
	must.OK(t, os.WriteFile(filepath.Join(src, "0/7"), []byte("other"), 0o644)) // which is no longer read
	m := harness.NewUnmounted(t, stores[0])
	m.Start()
	lines, err := os.ReadFile(told)
	must.OK(t, err)
	written := map[string]string{}
	for line := range strings.Lines(string(lines)) {
		i, err := strconv.Atoi(strings.TrimSpace(line))
		must.OK(t, err)
		p := fmt.Sprintf("own/%d", i)
		if i%3 == 0 {
			p = fmt.Sprintf("%d/%d", i%7, i)
		}
		written[p] = line
	}
	for p, want := range written {
		if got, err := os.ReadFile(m.Path(".forks/src-1/" + p)); err != nil || string(got) != want {
			t.Errorf("%s was written: %q, %v", p, got, err)
		}
	}
	for i := range 300 {
		p := fmt.Sprintf("%d/%d", i%7, i)
		if written[p] != "" || i%3 == 0 && i > 0 && i <= len(written)+1 {
			continue // the one after the last may be written in part
		}
		got, err := os.ReadFile(m.Path(".forks/src-1/" + p))
		if err != nil || !bytes.Equal(got, files[p]) {
			t.Errorf("%s has %d bytes, %v, and not %d", p, len(got), err, len(files[p]))
		}
	}
	t.Logf("%d files were written", len(written))
	m.Stop()
}

// descendants are a process and all below it, the deepest first.
func descendants(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(all, descendants(n)...)
			}
		}
	}
	return append(all, pid)
}
