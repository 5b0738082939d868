package alike

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// program is set for the process that does histories.
const program = "AMBERFS_TEST_ALIKE"

func TestMain(m *testing.M) {
	if text := os.Getenv(program); text != "" {
		if err := doAll(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(exerciserProgram); text != "" {
		if err := exercise(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(harness.Run(m))
}

// A task is histories for another process.
type task struct {
	World world
	Seeds []uint64
	Round int
	Steps int
	Log   string // the result of each step
}

// doAll does histories, each in a directory of its own below the working directory.
func doAll(text string) error {
	var todo task
	if err := json.Unmarshal([]byte(text), &todo); err != nil {
		return err
	}
	unix.Umask(0o022)
	log, err := os.Create(todo.Log)
	if err != nil {
		return err
	}
	out := bytes.Buffer{}
	for i, seed := range todo.Seeds {
		for j, s := range history(strconv.Itoa(i), seed+uint64(todo.Round)<<32, todo.Steps, todo.World) {
			err := s.do()
			var errno syscall.Errno
			if err != nil && !errors.As(err, &errno) {
				return err
			}
			fmt.Fprintf(&out, "%d/%d.%d %s: %v\n", i, todo.Round, j, s.text, err)
		}
	}
	for i, s := range topHistory(todo.Seeds[0]+uint64(todo.Round)<<32, todo.World) {
		fmt.Fprintf(&out, "top/%d.%d %s: %v\n", todo.Round, i, s.text, s.do())
	}
	_, err = log.Write(out.Bytes())
	return errors.Join(err, log.Close())
}

// A batch is some histories that one run does.
type batch struct {
	t          *testing.T
	world      world
	seeds      []uint64
	base       string
	plain, dir string
	began      time.Time
	log        string          // of the plain directory
	other      map[string]bool // histories in which a call returned something else
}

func newBatch(t *testing.T, w world, seeds []uint64) *batch {
	t.Helper()
	base, err := os.MkdirTemp("", "alike-")
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, os.RemoveAll(base)) })
	b := &batch{t, w, seeds, base, filepath.Join(base, "plain"), filepath.Join(base, "dir"), time.Now().Add(-time.Second), "", map[string]bool{}}
	must.OK(t, os.Chmod(base, 0o777))
	for _, dir := range []string{b.plain, b.dir} {
		must.OK(t, os.Mkdir(dir, 0o755))
		must.OK(t, os.Chown(dir, w.UID, w.GID))
		for i, seed := range seeds {
			must.OK(t, os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o755))
			must.OK(t, start(filepath.Join(dir, strconv.Itoa(i)), seed, w))
		}
	}
	self, err := os.Executable()
	must.OK(t, err)
	must.OK(t, copyFile(self, b.program()))
	return b
}

func copyFile(from, to string) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// command runs something as the user of the batch.
func (b *batch) command(dir string, round int, log string, argv ...string) {
	b.t.Helper()
	text, err := json.Marshal(task{b.world, b.seeds, round, steps, filepath.Join(b.base, log)})
	must.OK(b.t, err)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), program+"="+string(text), "HOME="+b.base, "AMBERFS_RUNS="+filepath.Join(b.base, "runs"),
		"XDG_STATE_HOME="+filepath.Join(b.base, "state"), "XDG_RUNTIME_DIR="+b.base)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(b.world.UID), Gid: uint32(b.world.GID), Groups: []uint32{uint32(b.world.Second)}}}
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("the %d seeds from %d: %q: %v\n%s", len(b.seeds), b.seeds[0], argv, err, tail(out))
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }

const steps = 25

// round does histories in both places, and applies those of the run.
func (b *batch) round(n int, argv ...string) {
	b.t.Helper()
	b.command(b.plain, n, fmt.Sprint("plain.", n), b.program())
	b.command(b.dir, n, fmt.Sprint("run.", n), slices.Concat([]string{harness.Binary(b.t), "run"}, argv, []string{"--", b.program()})...)
	b.compareLogs(n)
}

func (b *batch) program() string { return filepath.Join(b.base, "program") }

// elsewhere changes both directories where no history does.
func (b *batch) elsewhere() {
	b.t.Helper()
	for _, dir := range []string{b.plain, b.dir} {
		for i := range b.seeds {
			at := filepath.Join(dir, strconv.Itoa(i), "elsewhere")
			must.OK(b.t, os.Mkdir(at, 0o755))
			must.OK(b.t, os.WriteFile(filepath.Join(at, "f"), []byte("f"), 0o644))
			must.OK(b.t, os.Link(filepath.Join(at, "f"), filepath.Join(at, "g")))
		}
	}
}

var mtime = regexp.MustCompile(` mtime=(-?\d+)\.\d+`)

// compareLogs compares what the calls returned.
func (b *batch) compareLogs(n int) {
	b.t.Helper()
	var logs [2]string
	for i, name := range []string{"plain", "run"} {
		text, err := os.ReadFile(filepath.Join(b.base, fmt.Sprint(name, ".", n)))
		must.OK(b.t, err)
		logs[i] = string(text)
	}
	b.log += logs[0]
	lines := strings.Split(logs[1], "\n")
	for i, line := range strings.Split(logs[0], "\n") {
		number, _, _ := strings.Cut(line, "/")
		if lines[i] != line && !b.other[number] {
			b.other[number] = true
			b.t.Errorf("seed %s in the plain directory: %s\nin the run: %s", b.seed(number), line, lines[i])
		}
	}
}

// compare compares the two directories.
func (b *batch) compare() {
	b.t.Helper()
	want, got := b.top(b.plain), b.top(b.dir)
	if d := harness.Compare(want, got); d != "" {
		b.t.Errorf("the top, seed %d:\n%s\nhistory:\n%s", b.seeds[0], d, of(b.log, "top"))
	}
	for i := range b.seeds {
		number := strconv.Itoa(i)
		want, got := b.tree(b.plain, number), b.tree(b.dir, number)
		if d := harness.Compare(want, got); d != "" && !b.other[number] {
			b.t.Errorf("seed %s:\n%s\nhistory:\n%s", b.seed(number), d, of(b.log, number))
		}
	}
}

func (b *batch) seed(number string) string {
	i, _ := strconv.Atoi(number)
	return fmt.Sprint(b.seeds[i])
}

func of(log, number string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, number+"/") && strings.HasSuffix(line, "<nil>\n") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// top is the directory itself.
func (b *batch) top(dir string) harness.Tree {
	b.t.Helper()
	var st unix.Stat_t
	must.OK(b.t, unix.Lstat(dir, &st))
	top := harness.Tree{".": fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)}
	for _, name := range []string{"user.k", "system.posix_acl_default"} {
		value := make([]byte, 1000)
		n, err := unix.Lgetxattr(dir, name, value)
		top[name] = fmt.Sprintf("%x %v", value[:max(0, n)], err)
	}
	return top
}

// tree is a directory, without the times of the changes themselves.
func (b *batch) tree(dir, number string) harness.Tree {
	tree := harness.ReadTree(b.t, filepath.Join(dir, number))
	for p, line := range tree {
		if m := mtime.FindStringSubmatch(line); m != nil {
			if sec, err := strconv.ParseInt(m[1], 10, 64); err == nil && sec >= b.began.Unix() && sec <= time.Now().Unix() {
				tree[p] = mtime.ReplaceAllString(line, "")
			}
		}
	}
	return tree
}

// TestAlike does histories as root and as a user with a second group. The second and the
// third round are one run, which is left and refreshed in between.
func TestAlike(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("root makes the directories of other users")
	}
	seed := harness.RandomSeed(t)
	histories := harness.Count(t, "HISTORIES", 200, 10_000) / 3
	for name, w := range map[string]world{
		"root":   {UID: 0, GID: 0, Second: 2002, Root: true},
		"user":   {UID: 1001, GID: 1001, Second: 2002},
		"shared": {UID: 1001, GID: 1001, Second: 2002, Writable: true},
	} {
		t.Run(name, func(t *testing.T) {
			for done := 0; done < histories; {
				n := min(100, histories-done)
				var seeds []uint64
				for i := range n {
					seeds = append(seeds, seed+uint64(done+i))
				}
				b := newBatch(t, w, seeds)
				b.round(0, "--from", ".", "--apply=yes")
				b.compare()
				if !t.Failed() {
					b.round(1, "--from", ".", "--name", "two")
					b.elsewhere()
					b.round(2, "--resume", "--apply=yes")
					b.compare()
				}
				if done += n; t.Failed() {
					return
				}
			}
		})
	}
}
