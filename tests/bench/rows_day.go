package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// dayRows play what a coding agent does in a day. Each turn is the same in all places.
var dayRows = []row{
	{name: "day", what: "an agent's day of 200 turns", unit: "s",
		where: playsDay, run: day(200, agentTurn), reach: "≤ 1.03 × plain", how: dayHow},
	{name: "disk-day", what: "20 turns of npm ci and another revision, cold every tenth", unit: "s",
		where: playsDay, run: day(20, diskTurn), reach: "≤ 1.15 × plain", how: dayHow, named: true},
}

func playsDay(p place) bool { return p.kind == plain || keepsStates(p) }

func dayHow(p place) string {
	switch p.kind {
	case plain:
		return "no snapshots; a branch: cp -a TREE BRANCH"
	case amber:
		return commandHow(p) + "; a branch: mkdir(2) of .forks/N"
	case btrfs:
		return commandHow(p) + "; a branch: btrfs subvolume snapshot TREE BRANCH"
	case git:
		return commandHow(p) + ", without node_modules; a branch: cp -a TREE BRANCH"
	}
	return commandHow(p) + "; a branch: cp -a --reflink=auto TREE BRANCH"
}

// A player plays a day in one place and adds up what each kind of step took.
type player struct {
	w         *work
	h         history // nil in the plain directory
	turns     int
	repo      string // of the project, on the plain disk
	env       []string
	steps     map[string]time.Duration
	captures  []float64 // ms
	rewinds   []float64 // over a few edits
	over      []float64 // over npm ci
	revisions []string
}

// packages are what npm installs: pinned, without scripts, 40 MB.
const packages = `{"name":"day","version":"1.0.0","dependencies":{"typescript":"5.6.3","lodash":"4.17.21","@babel/core":"7.26.0"}}`

// daily is what a day begins with: a clone of this repository, the lock of the packages
// and a cache of them.
func (b *bench) daily() (string, error) {
	return b.input("day", func(path string) error {
		if _, err := exec.LookPath("npm"); err != nil {
			return &leftOut{"npm is not installed"}
		}
		npm := filepath.Join(path, "npm")
		if err := os.MkdirAll(npm, 0o755); err != nil {
			return err
		}
		top := output("git", "rev-parse", "--show-toplevel")
		if err := command("git", "clone", "-q", "--bare", "--no-hardlinks", top, filepath.Join(path, "repo.git")); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(npm, "package.json"), []byte(packages), 0o644); err != nil {
			return err
		}
		if err := commandIn(b.ctx, npm, dayEnv(path), "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"); err != nil {
			return &leftOut{"npm could not install what the day needs: " + err.Error()}
		}
		// Go's cache is filled once: else the first place would pay for all.
		warm := filepath.Join(path, "warm")
		if err := command("git", "clone", "-q", filepath.Join(path, "repo.git"), warm); err != nil {
			return err
		}
		for _, argv := range dayBuilds {
			if err := commandIn(b.ctx, warm, dayEnv(path), argv[0], argv[1:]...); err != nil {
				return err
			}
		}
		return errors.Join(os.RemoveAll(warm), os.RemoveAll(filepath.Join(npm, "node_modules")))
	})
}

var dayBuilds = [][]string{{"go", "build", "./internal/..."}, {"go", "test", "-count=1", "./internal/strictjson", "./internal/errs"}}

var npmCI = []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"}

// dayEnv keeps caches on the plain disk, the same for all places.
func dayEnv(input string) []string {
	return []string{"npm_config_cache=" + input + "/npm-cache", "npm_config_update_notifier=false", "GOFLAGS=-buildvcs=false", "GOCACHE=" + input + "/go-cache",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_GLOBAL=/dev/null/none"}
}

// day plays turns and returns how long they took. To warm up it plays a tenth of them.
func day(turns int, turn func(p *player, i int) error) func(*work) (float64, error) {
	return func(w *work) (f float64, err error) {
		input, err := w.b.daily()
		if err != nil {
			return 0, err
		}
		p := &player{w: w, turns: w.n(turns), repo: filepath.Join(input, "repo.git"), env: dayEnv(input), steps: map[string]time.Duration{}}
		if w.round == 0 {
			p.turns = max(8, p.turns/10)
		}
		p.revisions = strings.Fields(output("git", "-C", p.repo, "rev-list", "--max-count=20", "HEAD"))
		end := func() error { return nil }
		if w.place.kind != plain {
			if p.h, err = openHistory(w.b, w.place, filepath.Join(w.b.base, fmt.Sprintf("day-%d", w.b.serial)), w.dir); err != nil {
				return 0, err
			}
			end = p.h.close
			w.look(p.h)
		}
		defer func() {
			if !w.kept {
				err = errors.Join(err, end())
			}
		}()
		used := p.used()
		for _, argv := range [][]string{{"git", "init", "-q"}, {"sh", "-c", "echo node_modules >.git/info/exclude"}, {"git", "fetch", "-q", p.repo, "HEAD"}, {"git", "checkout", "-q", "-b", "work", "FETCH_HEAD"},
			{"cp", filepath.Join(input, "npm", "package.json"), filepath.Join(input, "npm", "package-lock.json"), "."}} {
			if err := p.sh(argv...); err != nil {
				return 0, err
			}
		}
		cpu := clientCPU()
		took, err := w.timed(p.turns, func() error {
			return w.b.loop(p.turns, func(i int) error {
				if w.b.ctx.Err() != nil {
					return w.b.ctx.Err()
				}
				return errors.Join(turn(p, i), p.capture(fmt.Sprintf("turn-%d", i)))
			})
		})
		if err != nil {
			return 0, err
		}
		spent := (clientCPU() - cpu).Seconds()
		if w.cost != nil {
			spent += w.cost.CPU
		}
		w.also("processors", "s", spent)
		for _, kind := range slices.Sorted(maps.Keys(p.steps)) {
			w.also(kind, "s", p.steps[kind].Seconds())
		}
		if p.h != nil {
			w.also("snapshot, median", "ms", quantile(p.captures, 0.5))
			w.also("snapshot, 99th percentile", "ms", quantile(p.captures, 0.99))
		}
		if p.rewinds != nil {
			w.also("rewind over edits", "ms", median(p.rewinds))
			w.also("rewind over npm ci", "ms", median(p.over))
		}
		if w.round == w.b.repeat {
			after, err := w.place.counters()
			if err != nil {
				return 0, err
			}
			w.kept = true
			w.b.settling = append(w.b.settling, settling{w.place.name, func() []figureOf {
				out := []figureOf{{"disk after a minute", "MB", p.used() - used}}
				if now, err := w.place.counters(); err == nil && now != nil {
					var c cost
					c.add(1, after, now)
					out = append(out, figureOf{"processors in that minute", "s", c.CPU})
				}
				return out
			}, func() error { return errors.Join(end(), w.clear()) }})
		}
		return took.Seconds(), nil
	}
}

func (p *player) root() string {
	if p.h == nil {
		return p.w.dir
	}
	return p.h.root()
}

// used is the space on the disk, in MB, that the place takes.
func (p *player) used() float64 {
	unix.Sync()
	switch p.w.place.kind {
	case btrfs, reflink:
		var st unix.Statfs_t
		if err := unix.Statfs(p.w.dir, &st); err != nil {
			return 0
		}
		return float64(st.Blocks-st.Bfree) * float64(st.Bsize) / 1e6
	}
	dir := p.w.dir
	if a, ok := p.h.(*amberHistory); ok {
		dir = a.store
	}
	var kib float64
	_, _ = fmt.Sscan(output("du", "-sk", dir), &kib)
	return kib * 1024 / 1e6
}

// step does one kind of work and notes how long it took.
func (p *player) step(kind string, do func() error) error {
	start := time.Now()
	err := do()
	p.steps[kind] += time.Since(start)
	return err
}

func (p *player) sh(argv ...string) error {
	return commandIn(p.w.b.ctx, p.root(), p.env, argv[0], argv[1:]...)
}

func (p *player) run(kind string, argv ...string) error {
	return p.step(kind, func() error { return p.sh(argv...) })
}

func (p *player) capture(name string) error {
	if p.h == nil {
		return nil
	}
	start := time.Now()
	err := p.h.capture(name)
	p.captures = append(p.captures, ms(time.Since(start)))
	return err
}

// rewind restores a snapshot and notes how long it took.
func (p *player) rewind(to int, all *[]float64) error {
	if p.h == nil {
		return nil
	}
	start := time.Now()
	err := p.h.restore(fmt.Sprintf("turn-%d", to))
	*all = append(*all, ms(time.Since(start)))
	return err
}

// edited are files that a turn changes, as an editor does: written beside and renamed.
var edited = []string{"internal/budget/budget.go", "internal/errs/errs.go", "internal/process/process.go", "internal/strictjson/strictjson.go", "README.md"}

func edit(dir string, i int) error {
	for j := range 3 {
		path := filepath.Join(dir, edited[(i+j)%len(edited)])
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text = append(bytes.TrimRight(text, "\n"), fmt.Sprintf("\n\n// Turn %d.\n", i)...)
		if err := errors.Join(os.WriteFile(path+".new", text, 0o644), os.Rename(path+".new", path)); err != nil {
			return err
		}
	}
	return nil
}

// agentTurn is a turn of an ordinary day. Two rewinds take back a few edits, and one the
// packages that npm installed again.
func agentTurn(p *player, i int) error {
	quarter := p.turns / 4
	search := []string{"grep", "-rlE", "--include=*.go", "func Test[A-Z]", "."}
	if _, err := exec.LookPath("rg"); err == nil && i%2 == 1 {
		search = []string{"rg", "-lg", "*.go", "func Test[A-Z]"}
	}
	err := errors.Join(
		p.step("edit", func() error { return edit(p.root(), i) }),
		p.run("git status", "git", "status", "--porcelain"),
		p.run("git diff", "git", "diff", "--stat"),
		p.run(search[0], search...),
		p.run("find", "find", ".", "-name", "*.md", "-newer", "go.mod"))
	if i == 0 || i%quarter == 0 && p.w.round > 0 { // once to warm up
		err = errors.Join(err, p.run("npm ci", npmCI...))
	}
	if i%10 == 0 {
		err = errors.Join(err, p.run("go build", dayBuilds[0]...),
			p.run("node", "node", "-e", `const ts = require("typescript"), b = require("@babel/core"); ts.transpile("let x: number = 1"); b.transformSync("a?.b")`))
	}
	if i%20 == 0 {
		err = errors.Join(err, p.run("go test", dayBuilds[1]...))
	}
	switch {
	case err != nil:
	case i == quarter/2 || i == quarter+quarter/2:
		err = p.rewind(i-min(i, 5), &p.rewinds)
	case i == 2*quarter+quarter/2:
		err = p.rewind(2*quarter-1, &p.over)
	case i == 2*quarter:
		err = p.step("branches", func() error { return p.branches(i) })
	}
	return err
}

// branches has two agents work at once, each on a copy of its own.
func (p *player) branches(i int) error {
	var g errgroup.Group
	for j := range 2 {
		g.Go(func() error {
			dir, end, err := p.branch(fmt.Sprintf("branch-%d", j))
			if err != nil {
				return err
			}
			for k := range 5 {
				err = errors.Join(err, edit(dir, i+10*j+k), commandIn(p.w.b.ctx, dir, p.env, "git", "status", "--porcelain"))
			}
			return errors.Join(err, end())
		})
	}
	return g.Wait()
}

// branch returns a copy of the tree and what removes it.
func (p *player) branch(name string) (dir string, end func() error, err error) {
	switch p.w.place.kind {
	case amber:
		dir = filepath.Join(p.root(), ".forks", name)
		return dir, func() error { return unix.Rmdir(dir) }, unix.Mkdir(dir, 0o755)
	case btrfs:
		dir = filepath.Join(p.w.dir, name)
		return dir, func() error { return command("btrfs", "subvolume", "delete", dir) }, command("btrfs", "subvolume", "snapshot", p.root(), dir)
	}
	dir = p.w.dir + "." + name
	return dir, func() error { return os.RemoveAll(dir) }, command("cp", "-a", "--reflink=auto", p.root(), dir)
}

// diskTurn is a turn of a day that writes much.
func diskTurn(p *player, i int) error {
	if i%10 == 9 {
		if err := dropCaches("3"); err != nil {
			return err
		}
	}
	return errors.Join(
		p.run("checkout", "git", "checkout", "-q", "-f", p.revisions[(i*7+1)%len(p.revisions)]),
		p.run("npm ci", npmCI...),
		p.run("git status", "git", "status", "--porcelain"),
		p.run("grep", "grep", "-rlE", "--include=*.go", "func Test[A-Z]", "."))
}

// clientCPU is the processor time of this program and of those that it ran. What the
// kernel's own threads take is not known, in no place.
func clientCPU() (all time.Duration) {
	for _, of := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		_ = unix.Getrusage(of, &u)
		all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return all
}
