package crash_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
)

// The daemon is killed while a workspace is being filled, and while programs write into
// it: all that they were told is written is there. Other files are as they were in the
// source, or cannot be read, and verify names these. Only files that changed in the source
// cannot be read.
func TestKillWhileFilling(t *testing.T) {
	seed := harness.FromEnv(t, "SEED", uint64(time.Now().UnixNano()))
	t.Logf("SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range harness.Count(t, "ROUNDS", 3, 200) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			base := t.TempDir()
			if round%2 == 1 {
				dir, err := os.MkdirTemp("/dev/shm", "amberfs-test-")
				check(t, err)
				t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
				base = dir
			}
			fillAndKill(t, rng, base, round)
		})
	}
}

func fillAndKill(t *testing.T, rng *rand.Rand, base string, round int) {
	src := filepath.Join(base, "src")
	files := make(map[string]string)
	for i := range 200 {
		b := make([]byte, rng.IntN(200_000))
		for j := 0; j+8 <= len(b); j += 8 {
			binary.LittleEndian.PutUint64(b[j:], rng.Uint64())
		}
		p := fmt.Sprintf("%d/%d", i%7, i)
		files[p] = string(b)
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(src, p)), 0o755))
		check(t, os.WriteFile(filepath.Join(src, p), b, 0o644))
	}
	check(t, os.Truncate(filepath.Join(src, "0/0"), 1<<30)) // the rest of it is a hole
	check(t, os.Link(filepath.Join(src, "1/1"), filepath.Join(src, "twin")))
	names := slices.Sorted(maps.Keys(files))
	delete(files, "0/0")

	m := harness.At(t, "")
	changed := map[string]bool{}
	m.Start("--from", src, "--later")
	for again := rng.IntN(3); again >= 0; again-- {
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(rng.IntN(150))*time.Millisecond, func() {
			m.Signal(unix.SIGKILL)
			close(killed)
		})
		for ended := false; !ended; {
			p, more := names[rng.IntN(len(names))], "own/"+fmt.Sprint(rng.IntN(1000))
			switch _, has := files[p]; {
			case rng.IntN(3) > 0 || !has || p == "1/1":
				if os.MkdirAll(m.Path("own"), 0o755) == nil && os.WriteFile(m.Path(more), []byte(p), 0o644) == nil {
					files[more] = p
				} else {
					delete(files, more) // it may have been truncated
				}
			case os.WriteFile(m.Path(p), []byte(more), 0o644) == nil:
				files[p], changed[p] = more, false
			default:
				delete(files, p)
			}
			select {
			case <-killed:
				ended = true
			default:
			}
		}
		m.Killed()
		switch p := names[rng.IntN(len(names))]; round % 4 {
		case 1, 2:
			if _, own := changed[p]; !own && p != "0/0" {
				check(t, os.WriteFile(filepath.Join(src, p), []byte("other"), 0o644))
				changed[p] = true
			}
		case 3:
			check(t, os.RemoveAll(src))
			for p := range files {
				if _, own := changed[p]; !own && !strings.HasPrefix(p, "own/") {
					changed[p] = true
				}
			}
			changed["twin"] = true
		}
		if rng.IntN(2) == 0 {
			m.KillWhileStarting(time.Duration(rng.IntN(60_000)) * time.Microsecond)
		}
		m.Start()
	}
	lost := map[string]bool{}
	for p, want := range files {
		got, err := os.ReadFile(m.Path(p))
		switch {
		case err == nil && string(got) == want:
		case errors.Is(err, unix.EIO) && changed[p]:
			lost[p] = true
		default:
			t.Errorf("%s has %d bytes, %v, and not %d; changed: %v", p, len(got), err, len(want), changed[p])
		}
	}
	m.Stop()
	report, _ := harness.Command("verify", m.Store)
	report, _, _ = strings.Cut(report, "in snapshot base") // which has no own contents
	for p := range files {
		if named := strings.Contains(report, " "+p+"\n"); named != lost[p] {
			t.Errorf("%s cannot be read: %v, but verify names it: %v", p, lost[p], named)
		}
	}
	if t.Failed() {
		t.Log(report)
	}
}

// The same kill takes `amberfs run --from DIR`, its daemon and the program, all at once.
// The store stays in its temporary directory until the next run.
func TestKillRunWhileFilling(t *testing.T) {
	seed := harness.FromEnv(t, "SEED", uint64(time.Now().UnixNano()))
	t.Logf("SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range harness.Count(t, "ROUNDS", 3, 100) {
		t.Run(fmt.Sprint(round), func(t *testing.T) { runAndKill(t, rng, round) })
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

func runAndKill(t *testing.T, rng *rand.Rand, round int) {
	src, tmp, told := filepath.Join(t.TempDir(), "src"), t.TempDir(), filepath.Join(t.TempDir(), "told")
	for i := range 300 {
		b := make([]byte, rng.IntN(100_000)+10)
		for j := 0; j+8 <= len(b); j += 8 {
			binary.LittleEndian.PutUint64(b[j:], rng.Uint64())
		}
		p := filepath.Join(src, fmt.Sprintf("%d/%d", i%7, i))
		check(t, os.MkdirAll(filepath.Dir(p), 0o755))
		check(t, os.WriteFile(p, b, 0o644))
	}
	log, err := os.Create(told)
	check(t, err)
	cmd := exec.Command(harness.Binary(t), "run", "--from", src, "--", "sh", "-c", keepsWriting)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Stdout = log
	check(t, cmd.Start())
	harness.Eventually(t, "the program writes", func() bool {
		st, err := log.Stat()
		return err == nil && st.Size() > 0
	})
	time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
	for _, pid := range descendants(cmd.Process.Pid) {
		_ = unix.Kill(pid, unix.SIGKILL) // one of them may have ended after another
	}
	_ = cmd.Wait()
	check(t, log.Close())

	stores, err := filepath.Glob(filepath.Join(tmp, "*/store"))
	if check(t, err); len(stores) != 1 {
		t.Fatalf("stores: %q", stores)
	}
	harness.Eventually(t, "all have ended", func() bool { return len(harness.Processes(tmp)) == 0 })
	if round%2 == 1 {
		check(t, os.WriteFile(filepath.Join(src, "0/7"), []byte("other"), 0o644))
	}
	m := harness.At(t, stores[0])
	m.Start()
	lines, err := os.ReadFile(told)
	check(t, err)
	written := map[string]string{}
	for line := range strings.Lines(string(lines)) {
		i, err := strconv.Atoi(strings.TrimSpace(line))
		check(t, err)
		p := fmt.Sprintf("own/%d", i)
		if i%3 == 0 {
			p = fmt.Sprintf("%d/%d", i%7, i)
		}
		written[p] = line
	}
	for p, want := range written {
		if got, err := os.ReadFile(m.Path(p)); err != nil || string(got) != want {
			t.Errorf("%s was written: %q, %v", p, got, err)
		}
	}
	for i := range 300 {
		p := fmt.Sprintf("%d/%d", i%7, i)
		if written[p] != "" || i%3 == 0 && i > 0 && i <= len(written)+1 {
			continue // the one after the last may be written in part
		}
		want, err := os.ReadFile(filepath.Join(src, p))
		check(t, err)
		got, err := os.ReadFile(m.Path(p))
		if changed := round%2 == 1 && p == "0/7"; !(changed && (errors.Is(err, unix.EIO) || err == nil)) &&
			(err != nil || string(got) != string(want)) {
			t.Errorf("%s has %d bytes, %v, and not %d", p, len(got), err, len(want))
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

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
