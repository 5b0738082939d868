package alike

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestPersonWritesDuringApply has a person write files of a directory while an apply changes the same files.
// Each of these files then has the writes on the bytes of the directory, or all of them on those of the run. The
// apply succeeds only if it has brought all that it planned. A write is never lost.
func TestPersonWritesDuringApply(t *testing.T) {
	seed := harness.RandomSeed(t)
	rounds := harness.Count(t, "ROUNDS", 4, 500)
	count := map[string]int{}
	e := newExercised(t, 0)
	duration := 200 * time.Millisecond // of an apply
	for i := range rounds {
		e.seed = seed + uint64(i)
		took := e.contend(fmt.Sprint("c", i), duration, count)
		if duration = (3*duration + took) / 4; t.Failed() {
			return
		}
	}
	t.Logf("%d applies: %v", rounds, count)
	harness.Eventually(t, "no process is left", func() bool { return len(harness.Processes(e.root)) == 0 })
}

// contend is one round, with a directory and a run of its own. It returns how long the apply took.
func (e *exercised) contend(run string, duration time.Duration, count map[string]int) time.Duration {
	t := e.t
	t.Helper()
	r := rand.New(rand.NewPCG(e.seed, 3))
	must.OK(t, os.RemoveAll(e.path("work")))
	must.OK(t, os.Mkdir(e.path("work"), 0o755))
	e.work, e.name = newChanges(e.seed), run
	x := newExerciser(e.work, e.path("work"))
	for range 60 {
		must.OK(t, x.step())
	}
	x.close()
	c := &contest{dir: e.path("work"), base: e.work.fs.Clone(), r: r}

	e.begin("--from", ".", "--name", run)
	done := e.ask(order{Steps: 40, Stop: true})
	e.end()
	e.work.skip(done.Count - e.work.count)
	c.planned = e.work.fs
	c.choose()

	apply := harness.ApplyRun(t, e.root, e.dir, run)
	var out strings.Builder
	apply.Stdout, apply.Stderr = &out, &out
	names, pause := r.IntN(30), time.Duration(0)
	if r.IntN(2) == 0 {
		names, pause = 0, time.Duration(r.Int64N(int64(duration*3/2)))
	}
	began := time.Now()
	err := harness.CallDuringCommand(t, apply, c.dir, names, func() {
		time.Sleep(pause)
		c.write()
	})
	took := time.Since(began)
	if apply.ProcessState.ExitCode() < 0 {
		t.Fatalf("SEED=%d: apply: %v\n%s", e.seed, err, out.String())
	}
	for _, p := range c.paths {
		count[c.judge(t, e.seed, p, err == nil, out.String())]++
	}
	c.judgeOthers(t, e.seed, err == nil)
	if t.Failed() {
		t.Logf("SEED=%d: apply: %v\n%s", e.seed, err, out.String())
	}
	return took
}

// A contest is a directory that an apply and a person change at the same time.
type contest struct {
	dir           string
	base, planned *fsmodel.FS // before the apply and after it, without the person
	r             *rand.Rand
	paths         []string // of the files that the person writes
	ops           []personWrite
}

// A personWrite is a call of the person, for one of the files.
type personWrite struct {
	path string // of the file
	op   fsmodel.Op
	err  error // what the call returned
	// late is set if the apply replaced the file between the begin and the end of the call. Then the call may have
	// opened the former file and written it after the apply looked at it last, which an apply cannot prevent.
	late bool
}

// choose chooses files that the apply replaces, and that have one name.
func (c *contest) choose() {
	before, after := c.base.List(), c.planned.List()
	for p, line := range before {
		was, ok := c.base.Data(p)
		if is, _ := c.planned.Data(p); ok && !bytes.Equal(was, is) && strings.Contains(line, " nlink 1 ") && strings.Contains(after[p], " nlink 1 ") {
			c.paths = append(c.paths, p)
		}
	}
}

// write does some calls. Their errors are part of the result.
func (c *contest) write() {
	if len(c.paths) == 0 {
		return
	}
	for range 1 + c.r.IntN(5) {
		p := c.paths[c.r.IntN(len(c.paths))]
		for _, op := range c.draw(p) {
			before := c.inode(p)
			err := op.Do(c.dir)
			c.ops = append(c.ops, personWrite{p, op, err, op.To == "" && before != c.inode(p)})
		}
		if c.r.IntN(3) == 0 {
			time.Sleep(time.Duration(c.r.IntN(3000)) * time.Microsecond)
		}
	}
}

// inode returns the inode number of a file, 0 if there is none.
func (c *contest) inode(p string) uint64 {
	var st unix.Stat_t
	_ = unix.Lstat(c.dir+"/"+p, &st)
	return st.Ino
}

// draw returns a write into a file, or the calls with which an editor saves one. The first write gives the file a zero
// byte in front, which stays. So the file is no text, and an apply does not merge it.
func (c *contest) draw(p string) []fsmodel.Op {
	op := fsmodel.Op{Path: p, Fill: byte(c.r.IntN(256)), Off: int64(1 + c.r.IntN(20_000)), Len: int64(1 + c.r.IntN(9000))}
	if !slices.ContainsFunc(c.ops, func(w personWrite) bool { return w.path == p }) {
		op.Kind, op.Off, op.Fill = fsmodel.Write, 0, 0
		return []fsmodel.Op{op}
	}
	switch op.Kind = []fsmodel.Kind{fsmodel.Write, fsmodel.Write, fsmodel.Append, fsmodel.Append, fsmodel.Truncate, fsmodel.Punch, fsmodel.Create}[c.r.IntN(7)]; op.Kind {
	case fsmodel.Truncate:
		op.Len = op.Off
	case fsmodel.Create:
		temp := p + ".saved"
		return []fsmodel.Op{
			{Kind: fsmodel.Create, Path: temp, Mode: 0o644},
			{Kind: fsmodel.Write, Path: temp, Len: op.Len},
			{Kind: fsmodel.Rename, Path: temp, To: p},
		}
	}
	return []fsmodel.Op{op}
}

// judge finds out how one file came to what it has: untouched, kept (the person's writes on the bytes of the
// directory), replaced (by the file of the run, before the writes), and what else the test says. It fails if a write
// is lost.
func (c *contest) judge(t *testing.T, seed uint64, p string, applied bool, out string) string {
	t.Helper()
	var ops []personWrite
	for _, w := range c.ops {
		if w.path == p {
			ops = append(ops, w)
		}
	}
	got, err := os.ReadFile(c.dir + "/" + p)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.EISDIR) {
		t.Fatal(err)
	}
	was, _ := c.base.Data(p)
	is, _ := c.planned.Data(p)
	fits := func(fs *fsmodel.FS, ops []personWrite) bool {
		for _, w := range ops {
			if !errors.Is(w.err, w.op.Apply(fs)) {
				return false
			}
		}
		data, ok := fs.Data(p)
		return ok == (err == nil) && bytes.Equal(data, got)
	}

	kept, replaced, late := fits(c.base.Clone(), ops), false, false
	for n := range len(ops) + 1 {
		// The writes until the apply replaced the file must have changed nothing.
		before, after := c.base.Clone(), c.planned.Clone()
		for i, w := range ops[:n] {
			if w.late && i == n-1 {
				continue
			}
			_ = w.op.Apply(before)
			if w.op.Path != p && w.op.To == "" {
				_ = w.op.Apply(after)
			}
		}
		if data, _ := before.Data(p); bytes.Equal(data, was) && fits(after, ops[n:]) {
			replaced, late = true, late || n > 0 && ops[n-1].late
		}
	}
	switch {
	case kept && replaced:
		return "no difference"
	case late:
		return "written while replaced"
	case replaced && len(ops) == 0:
		return "replaced, not written"
	case replaced:
		return "replaced, then written"
	case kept && applied && !bytes.Equal(was, is):
		t.Errorf("SEED=%d: the apply succeeded, and %s is not what the run has", seed, p)
		return "not applied"
	case kept && len(ops) == 0:
		return "neither replaced nor written"
	case kept:
		return "written, not replaced"
	}
	var list strings.Builder
	for _, w := range ops {
		fmt.Fprintf(&list, "  %v: %v\n", w.op, w.err)
	}
	t.Errorf("SEED=%d: %s has neither the person's bytes nor the run's: %v, %d bytes; in the directory %s, in the run %s; written:\n%s", seed, p, err, len(got), differ(was, got), differ(is, got), list.String())
	return "lost"
}

// judgeOthers checks the paths that the person does not write: each is old or new, and new if the apply succeeded.
func (c *contest) judgeOthers(t *testing.T, seed uint64, applied bool) {
	t.Helper()
	before, after := c.base.List(), c.planned.List()
	got, err := fsmodel.Observe(c.dir)
	must.OK(t, err)
	for _, p := range c.paths {
		for _, list := range []map[string]string{before, after, got} {
			delete(list, p)
			delete(list, p+".saved")
		}
	}
	for _, list := range []map[string]string{before, after, got} {
		for p, line := range list {
			if strings.Contains(line, " same as ") { // the rest of the names may not be there yet
				line, _, _ = strings.Cut(line, " same as ")
			}
			if kind, rest, ok := strings.Cut(line, " nlink "); ok {
				_, rest, _ = strings.Cut(rest, " ")
				line = kind + " " + rest
			}
			list[p] = line
		}
	}
	if d := fsmodel.Compare(after, got); applied && d != "" {
		t.Errorf("SEED=%d: the apply succeeded:\n%s", seed, d)
	}
	for p, line := range got {
		if line != before[p] && line != after[p] {
			t.Errorf("SEED=%d: %s is %s, was %s, is to be %s", seed, p, line, before[p], after[p])
		}
	}
	for p, line := range before {
		if _, ok := got[p]; !ok && after[p] == line {
			t.Errorf("SEED=%d: %s is gone, was %s", seed, p, line)
		}
	}
}
