package alike

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// An exercised is a run of a directory whose program is an exerciser. The program changes the directory
// "work" in the run. The person changes the directory "person" itself.
type exercised struct {
	t         *testing.T
	seed      uint64
	dir, root string // of the directory, and of the store of its runs
	name      string // of the run

	program *exec.Cmd
	in      io.WriteCloser
	answers *json.Decoder
	errors  *bytes.Buffer // what the program printed; complete when it has ended
	work    *changes      // of the program, up to where the test has followed them
	person  *exerciser
}

func newExercised(t *testing.T, seed uint64) *exercised {
	t.Helper()
	old := unix.Umask(0o022)
	t.Cleanup(func() { unix.Umask(old) })
	base := t.TempDir()
	e := &exercised{t: t, seed: seed, dir: filepath.Join(base, "dir"), root: filepath.Join(base, "runs"), name: "x", work: newChanges(seed)}
	for _, name := range []string{"work", "person"} {
		must.OK(t, os.MkdirAll(e.path(name), 0o755))
	}
	e.person = newExerciser(newChanges(seed+1_000_000), e.path("person"))
	t.Cleanup(e.person.close)
	t.Cleanup(func() {
		e.end()
		harness.Eventually(t, "all have ended", func() bool { return harness.KillAll(e.root) })
	})
	return e
}

func (e *exercised) path(name string) string { return filepath.Join(e.dir, name) }

// command returns an amberfs command in the directory.
func (e *exercised) command(args ...string) *exec.Cmd {
	cmd := exec.Command(harness.Binary(e.t), args...)
	cmd.Dir = e.dir
	cmd.Env = append(os.Environ(), "AMBERFS_RUNS="+e.root)
	return cmd
}

func (e *exercised) amberfs(args ...string) {
	e.t.Helper()
	if out, err := e.command(args...).CombinedOutput(); err != nil {
		e.fatal(fmt.Sprintf("amberfs %s: %v\n%s", strings.Join(args, " "), err, out))
	}
}

// begin starts the program in the run, which the arguments make or resume. The program makes no changes yet.
func (e *exercised) begin(args ...string) {
	e.t.Helper()
	self, err := os.Executable()
	must.OK(e.t, err)
	text, err := json.Marshal(beginning{e.seed, e.work.count})
	must.OK(e.t, err)
	e.program = e.command(append(append([]string{"run"}, args...), "--", self)...)
	e.program.Env = append(e.program.Env, exerciserProgram+"="+string(text))
	e.errors = &bytes.Buffer{}
	e.program.Stderr = e.errors
	e.in, err = e.program.StdinPipe()
	must.OK(e.t, err)
	out, err := e.program.StdoutPipe()
	must.OK(e.t, err)
	e.answers = json.NewDecoder(out)
	must.OK(e.t, e.program.Start())
}

func (e *exercised) ask(o order) (a answer) {
	e.t.Helper()
	err := json.NewEncoder(e.in).Encode(o)
	if err == nil {
		err = e.answers.Decode(&a)
	}
	if err != nil {
		e.fatal(fmt.Sprintf("the program does not answer: %v", err))
	}
	return a
}

// end ends the program. It reports what the program printed if it failed.
func (e *exercised) end() {
	e.t.Helper()
	if e.program == nil {
		return
	}
	e.in.Close()
	err := e.program.Wait()
	e.program = nil
	if err != nil {
		e.t.Errorf("SEED=%d: the program: %v\n%s", e.seed, err, tail(e.errors.Bytes()))
	}
}

func (e *exercised) fatal(what string) {
	e.t.Helper()
	logs, _ := filepath.Glob(filepath.Join(e.root, "*", "amberfs.log"))
	for _, name := range logs {
		log, err := os.ReadFile(name)
		e.t.Logf("%s: %v\n%s", name, err, tail(log))
	}
	e.end()
	e.t.Fatalf("SEED=%d: %s", e.seed, what)
}

// TestApplyWhileFilesChange applies a run again and again while its program changes files. The directory
// then has the tree of one instant during the apply. In some rounds the program stops, and then it is an exact
// copy. The person changes other files, before or during an apply: they are left alone, and a refresh
// brings them into the run, while its program goes on.
func TestApplyWhileFilesChange(t *testing.T) {
	seed := harness.RandomSeed(t)
	rounds := harness.Count(t, "ROUNDS", 6, 500)
	e := newExercised(t, seed)
	e.begin("--from", ".", "--name", e.name)
	for i := range rounds {
		e.round(i)
		if t.Failed() {
			return
		}
	}
	last := e.ask(order{Stop: true})
	e.amberfs("refresh", "--run", e.name)
	e.amberfs("apply", "--run", e.name, "--yes")
	e.follow(last.Count, last.Count)
	last = e.ask(order{Stop: true, Look: true})
	e.compareWork(last)
	e.comparePerson(last)
	e.end()
	t.Logf("%d applies, %d changes in the run, %d in the directory", rounds+1, last.Count, e.person.count)
	harness.Eventually(t, "no process is left", func() bool { return len(harness.Processes(e.root)) == 0 })
}

// round is one apply.
func (e *exercised) round(i int) {
	e.t.Helper()
	stopped, refreshed, personChanges := i%2 == 1, i%3 == 1, i%4 < 2
	if refreshed {
		for range 20 {
			must.OK(e.t, e.person.step())
		}
		e.amberfs("refresh", "--run", e.name)
		e.comparePerson(e.ask(order{Steps: 1, Look: true}))
	}

	before := e.ask(order{Steps: 5, Stop: stopped, Look: true})
	ended, changed := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil && personChanges {
			select {
			case <-ended:
				changed <- e.person.check()
				return
			default:
				err = e.person.step()
			}
		}
		changed <- err
	}()
	out, err := harness.ApplyRun(e.t, e.root, e.dir, e.name).CombinedOutput()
	close(ended)
	must.OK(e.t, <-changed)
	if err != nil {
		e.fatal(fmt.Sprintf("round %d: apply: %v\n%s", i, err, out))
	}
	if stopped {
		e.compareWork(before)
	}
	e.follow(before.Count, e.ask(order{Stop: stopped}).Count)
	must.OK(e.t, e.person.check())
}

// comparePerson compares what the person made with what the program sees of it.
func (e *exercised) comparePerson(a answer) {
	e.t.Helper()
	got, err := fsmodel.Observe(e.path("person"))
	must.OK(e.t, err)
	if d := fsmodel.Compare(got, a.Person); d != "" {
		e.t.Errorf("SEED=%d: what the person made, in the run after change %d:\n%s", e.seed, a.Count, d)
	}
}

// compareWork compares what the program made with the directory, times and holes included.
func (e *exercised) compareWork(a answer) {
	e.t.Helper()
	harness.CheckSameTree(e.t, fmt.Sprintf("SEED=%d: the directory after change %d", e.seed, a.Count), a.Work, harness.ReadTree(e.t, e.path("work")))
}

// follow makes the changes of the program in e.work, and fails unless the directory has the tree after
// one of the changes first to last, or amid a change that the kernel may cut.
func (e *exercised) follow(first, last int) {
	e.t.Helper()
	e.work.skip(first - e.work.count)
	got, err := fsmodel.Observe(e.path("work"))
	must.OK(e.t, err)
	from := e.work.clone()
	found := maps.Equal(from.fs.List(), got)
	for !found && e.work.count < last {
		e.work.skip(1)
		found = maps.Equal(e.work.fs.List(), got)
	}
	e.work.skip(last - e.work.count)
	if found || e.isAmid(from.clone(), last, got) {
		return
	}
	e.t.Errorf("SEED=%d: the directory has the tree of no instant from change %d to %d:\n%s", e.seed, first, last, instants(from, last, got))
}

// isAmid reports whether a tree is one that only a part of a write has changed.
func (e *exercised) isAmid(c *changes, last int, got map[string]string) bool {
	for c.count < last {
		before := c.fs.Clone()
		op := c.draw()
		for _, part := range op.Partly(before) {
			fs := before.Clone()
			if part.Apply(fs) == nil && maps.Equal(fs.List(), got) {
				e.t.Logf("the directory has a part of change %d: %v", c.count, op)
				return true
			}
		}
		_ = op.Apply(c.fs)
	}
	return false
}

// instants returns a line for each path: after which changes it was as in a tree.
func instants(c *changes, last int, got map[string]string) string {
	spans := map[string][]string{}
	for since := map[string]int{}; ; c.skip(1) {
		list := c.fs.List()
		all := maps.Clone(got)
		maps.Copy(all, list)
		for p := range all {
			switch n, ok := since[p]; {
			case !ok && list[p] == got[p]:
				since[p] = c.count
			case ok && list[p] != got[p]:
				spans[p] = append(spans[p], fmt.Sprintf("%d-%d", n, c.count-1))
				delete(since, p)
			}
			if spans[p] == nil {
				spans[p] = []string{}
			}
		}
		if c.count < last {
			continue
		}
		for p, n := range since {
			spans[p] = append(spans[p], fmt.Sprintf("%d-", n))
		}
		break
	}
	var out strings.Builder
	for _, p := range slices.Sorted(maps.Keys(spans)) {
		fmt.Fprintf(&out, "  %s: %q, as after changes %v\n", p, got[p], spans[p])
	}
	return out.String()
}
