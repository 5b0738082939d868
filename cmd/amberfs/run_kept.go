package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/usage"
)

// kept is a run of a directory that is kept until it is applied or removed.
type kept struct {
	a       *app
	dir     string
	store   string
	name    string // "" is a new name or, if resume is set, that of the newest run
	resume  bool
	apply   string // "", applyAsk or applyYes
	command []string
	filled  bool // the store was made for this run, so it has what the directory has
}

// runKept runs a program in a run of a directory.
func (a *app) runKept(ctx context.Context, k *kept, c sandbox.Config) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	if k.dir = locate.Resolve(mounts, k.dir); k.dir == "/" {
		return fail.New(fail.Usage, "the whole system cannot be a workspace").WithHint("name a directory")
	}
	root, err := runs.Root()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fail.New(fail.KindOf(err), "cannot make the directory of the runs: %w", err).WithHint("name another in AMBERFS_RUNS, or use --discard")
	}
	root = locate.Resolve(mounts, root)
	k.store, k.command = runs.Store(root, mounts, k.dir), c.Command
	cfg := daemon.Config{Store: k.store, Mountpoint: daemon.RunMountpoint(k.store), From: k.dir, Exclude: []string{root}, Version: versionText()}
	if err := daemon.CheckPaths(&cfg, mounts); err != nil {
		return err
	}
	bar := a.newProgress()
	defer bar.done()
	s := a.starter(bar, func(*daemon.Ready) {})
	bar.expect(k.dir)
	k.filled, err = daemon.Make(ctx, cfg, s)
	bar.done()
	if err != nil {
		return err
	}
	a.noteRepository(k.dir)
	c.Store, c.Mountpoint, c.InPlace = k.store, k.dir, true
	var ended error
	status, err := sandbox.Outer(ctx, c, nil, s, func(c *sandbox.Config) error { return k.begin(ctx, c) }, func(started, served bool) error {
		switch {
		case !started && !k.resume:
			return k.drop(ctx)
		case !served: // which was reported
			a.note("the run %s is kept\n\tgo on with: amberfs run --resume %s -- COMMAND", k.name, k.name)
			return nil
		}
		if !started {
			return k.mark(ctx, service.RunKept)
		}
		c.Fork = k.name
		err := a.snapshotAfter(ctx, k.place(), c)
		if err == nil {
			ended = k.end()
		}
		return err
	})
	if err == nil && status == 0 {
		err = ended
	} else if ended != nil {
		a.note("%v", ended)
	}
	return a.statusOf(status, err)
}

func (k *kept) place() locate.Place {
	return locate.Place{Mount: &mountinfo.Info{Mountpoint: k.dir}, Store: k.store}
}

func (k *kept) open(ctx context.Context, fork string) (*client.Client, error) {
	return client.Open(ctx, client.Target{Store: k.store, Workspace: fork, Command: k.a.command})
}

// begin brings the store up to what the directory has, and makes the fork or refreshes it.
func (k *kept) begin(ctx context.Context, c *sandbox.Config) error {
	main, err := k.open(ctx, "")
	if err != nil {
		return err
	}
	defer main.Close()
	all, err := listRuns(ctx, main, k.dir, k.store)
	if err != nil {
		return err
	}
	all = expireRuns(ctx, main, all)
	if k.resume {
		err = k.goOn(ctx, all)
	} else {
		err = k.beginNew(ctx, main, all)
	}
	if err != nil {
		return err
	}
	k.noteEarlier(ctx, main, all)
	c.Fork = k.name
	if err := k.mark(ctx, service.RunRunning); err != nil {
		return err
	}
	return k.a.prepare(ctx, k.place(), c, "")
}

func (k *kept) beginNew(ctx context.Context, main *client.Client, all []runRow) error {
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	if slices.Contains(names, k.name) {
		return fail.New(fail.Exists, "the run %s exists", k.name).WithHint("go on with it by --resume %s, or choose another name", k.name)
	}
	if !k.filled {
		if _, err := k.a.refresh(ctx, main, k.dir, k.store, service.Refresh{Theirs: true}); err != nil {
			return err
		}
	}
	chosen := k.name
	for {
		k.name = cmp.Or(chosen, runs.Next(k.dir, names))
		err := main.Do(ctx, service.Fork{Name: k.name}, client.Exchange{}, nil)
		if fail.KindOf(err) != fail.Exists || chosen != "" {
			return err
		}
		names = append(names, k.name) // another run began meanwhile
	}
}

func (k *kept) goOn(ctx context.Context, all []runRow) error {
	r, err := chooseRun(all, k.name, k.dir)
	if err != nil {
		return err
	}
	k.name = r.Name
	fork, err := k.open(ctx, k.name)
	if err != nil {
		return err
	}
	defer fork.Close()
	done, err := k.a.refresh(ctx, fork, k.dir, k.store, service.Refresh{})
	if err != nil && len(done.Conflicts) > 0 {
		k.a.note("changed in %s and in the run %s:", quote(k.dir), k.name)
		for _, p := range done.Conflicts {
			fmt.Fprintln(k.a.stderr, "\t"+quote(p))
		}
		return fail.New(fail.Conflict, "the run %s does not go on; nothing was changed", k.name).
			WithHint("keep the run's version with `amberfs refresh --run %s --ours`, or take the directory's with --theirs", k.name)
	}
	if err == nil && done.Changed > 0 {
		k.a.note("%s came from %s into the run %s", plural(done.Changed, "change", "changes"), quote(k.dir), k.name)
	}
	return err
}

// noteEarlier counts the other runs that are not applied.
func (k *kept) noteEarlier(ctx context.Context, main *client.Client, all []runRow) {
	n := 0
	for _, r := range all {
		if r.State == service.RunKept && r.Name != k.name {
			n++
		}
	}
	if n == 0 {
		return
	}
	bytes := int64(0)
	for _, r := range sizes(ctx, main, all) {
		if r.State == service.RunKept && r.Name != k.name {
			bytes += r.Bytes
		}
	}
	are := "runs are"
	if n == 1 {
		are = "run is"
	}
	k.a.note("%d earlier %s not applied, %s: amberfs runs", n, are, bytesText(bytes))
}

// mark takes a snapshot of the run that says in which state it is.
func (k *kept) mark(ctx context.Context, state string) error {
	const longest = 200
	text := strings.ToValidUTF8(strings.Join(k.command, " "), "?")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return markRun(ctx, k.a, k.store, k.name, text, state)
}

func markRun(ctx context.Context, a *app, store, name, command, state string) error {
	c, err := client.Open(ctx, client.Target{Store: store, Workspace: name, Command: a.command})
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Do(ctx, service.Snapshot{Message: command, Labels: map[string]string{service.RunLabel: state}}, client.Exchange{}, nil)
}

// end says what the program did, and applies it if that is wanted. An error is that something
// was not applied.
func (k *kept) end() error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGHUP) // SIGINT may be for a pager
	defer stop()
	a := k.a
	if err := k.mark(ctx, service.RunKept); err != nil {
		return err
	}
	fork, err := k.open(ctx, k.name)
	if err != nil {
		return err
	}
	defer fork.Close()
	ch, err := fork.Changes(ctx, "")
	if err != nil {
		return err
	}
	defer ch.Close()
	if same, err := unchanged(ctx, ch); err != nil {
		return err
	} else if same {
		return k.goes(ctx)
	}
	k.noteOutside(ctx, fork)
	if k.apply == "" {
		return k.say(ctx, ch)
	}
	q, applied, err := a.applyChanges(ctx, ch, k.dir, map[string]asking{applyAsk: askOfKept}[k.apply], gitbridge.ApplyOptions{})
	if err != nil && ctx.Err() != nil {
		err = fail.New(fail.Failed, "interrupted")
	}
	if applied != nil && a.json {
		_ = a.printJSON(applied) // an error of the output is found at the end
	} else if applied != nil {
		a.say(strings.TrimSuffix(a.appliedLines(applied), "\n"))
	}
	if applied != nil {
		a.settle(ctx, fork, k.dir, k.store)
	}
	switch {
	case err == nil && q != nil && q.Discard:
		return a.removeRun(context.WithoutCancel(ctx), k.store, k.name)
	case err == nil && (q == nil || !q.Left):
		return k.mark(ctx, service.RunApplied)
	}
	what := "the run " + k.name
	if q != nil && q.Left && applied != nil {
		what = "the rest of the run " + k.name
	}
	k.commands(what + " is kept")
	return err
}

// noteOutside says that the directory itself was changed during the run.
func (k *kept) noteOutside(ctx context.Context, fork *client.Client) {
	done, _ := k.a.refresh(ctx, fork, k.dir, k.store, service.Refresh{DryRun: true}) // a conflict counts too
	if n := done.Changed + len(done.Conflicts); n > 0 {
		k.a.note("%s changed in %s itself meanwhile. Programs from before the run, such as docker, watchers and editors, use that and not the run", plural(n, "path", "paths"), quote(k.dir))
	}
}

// goes removes a run in which nothing changed.
func (k *kept) goes(ctx context.Context) error {
	err := k.drop(ctx)
	if err == nil && k.a.json && k.apply != "" {
		return k.a.printJSON(gitbridge.NothingApplied(k.dir))
	}
	if err == nil {
		k.a.note("nothing changed: the run %s is removed", k.name)
	}
	return err
}

func (k *kept) drop(ctx context.Context) error {
	main, err := k.open(ctx, "")
	if err != nil {
		return err
	}
	defer main.Close()
	return main.Do(context.WithoutCancel(ctx), service.DeleteFork{Name: k.name, Discard: true, Force: true}, client.Exchange{}, nil)
}

// say prints what the program changed, and what can be done with it.
func (k *kept) say(ctx context.Context, ch *client.Changes) error {
	plan, err := k.a.apply(ctx, ch, k.dir, gitbridge.ApplyOptions{DryRun: true})
	if plan == nil || err != nil && len(plan.Conflicts) == 0 {
		k.commands("the run " + k.name + " is kept")
		return err
	}
	q := question.New(k.a.terminal(), ch, k.dir, threeway.RefuseConflicts, plan)
	lines := []string{"the run " + k.name + " changed " + q.Summary()}
	k.commands(strings.Join(append(lines, q.Commits()...), "\n\t"))
	return nil
}

// commands prints a text, and the commands that come next.
func (k *kept) commands(text string) {
	in := ""
	if wd, err := locate.Getwd(); err != nil || wd != k.dir {
		in = " " + word(k.dir)
	}
	k.a.say(text +
		"\n\tapply it:   amberfs apply" + in + " --run " + k.name +
		"\n\tlook at it: amberfs runs diff " + k.name +
		"\n\tgo on:      amberfs run --resume " + k.name + " -- COMMAND" +
		"\n\tdiscard it: amberfs runs rm " + k.name)
}

// A runRow is a run in a listing.
type runRow struct {
	Name    string    `json:"name"`
	Dir     string    `json:"dir"`
	Gone    bool      `json:"dir_gone,omitempty"` // there is no such directory any more
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	State   string    `json:"state"`
	Command string    `json:"command"`
	Changed int       `json:"changed"`
	More    bool      `json:"more,omitempty"`
	Bytes   int64     `json:"bytes"` // of its own
	Store   string    `json:"store"`
}

// listRuns returns the runs in the store of a directory.
func listRuns(ctx context.Context, main *client.Client, dir, store string) (out []runRow, err error) {
	var l service.ForkList
	if err := main.Do(ctx, service.Forks{}, client.Exchange{}, &l); err != nil {
		return nil, err
	}
	_, serr := os.Lstat(dir)
	for _, f := range l.Forks {
		r := runRow{Name: f.Name, Dir: dir, Gone: os.IsNotExist(serr), Created: f.Created, Used: f.Created, State: service.RunKept, Changed: f.Changed, More: f.More, Store: store}
		if f.Run != nil {
			r.Used, r.State, r.Command = f.Run.Used, f.Run.State, f.Run.Command
		}
		out = append(out, r)
	}
	return out, nil
}

// sizes fills in how much each run takes of its own.
func sizes(ctx context.Context, main *client.Client, all []runRow) []runRow {
	var d usage.Disk
	_ = main.Do(ctx, service.DU{}, client.Exchange{}, &d) // else they are not known
	out := slices.Clone(all)
	for i := range out {
		if f := slices.IndexFunc(d.Forks, func(f usage.UsedBy) bool { return f.Name == out[i].Name }); f >= 0 {
			out[i].Bytes = d.Forks[f].Bytes
		}
	}
	return out
}

const (
	keptApplied = 14 * 24 * time.Hour // after the last use
	keptRemoved = 24 * time.Hour
)

// expired reports whether a run goes without a question.
func (r *runRow) expired(now time.Time) bool {
	age := now.Sub(r.Used)
	switch r.State {
	case service.RunRemoved:
		return age > keptRemoved
	case service.RunApplied:
		return age > keptApplied
	case service.RunKept:
		return age > keptApplied && r.Changed == 0 && !r.More
	}
	return false
}

// expireRuns removes the runs that nobody needs, and returns the others.
func expireRuns(ctx context.Context, main *client.Client, all []runRow) (left []runRow) {
	for _, r := range all {
		if !r.expired(time.Now()) || main.Do(ctx, service.DeleteFork{Name: r.Name, Discard: true}, client.Exchange{}, nil) != nil {
			left = append(left, r)
		}
	}
	return left
}

// chooseRun finds a run that can go on or be applied: by its name, or the newest.
func chooseRun(all []runRow, name, dir string) (*runRow, error) {
	var newest *runRow
	for i, r := range all {
		switch {
		case name == "" && r.State == service.RunKept && (newest == nil || r.Used.After(newest.Used)):
			newest = &all[i]
		case name != r.Name:
		case r.State == service.RunRemoved:
			return nil, fail.New(fail.NotFound, "the run %s was removed", name).WithHint("get it back with `amberfs runs restore %s`", name)
		default:
			return &all[i], nil
		}
	}
	if newest != nil {
		return newest, nil
	}
	what := "no run of " + dir + " is kept"
	if name != "" {
		what = "no such run: " + name
	}
	return nil, fail.New(fail.NotFound, "%s", what).WithHint("see `amberfs runs`")
}

// unchanged reports whether nothing differs but times of directories.
func unchanged(ctx context.Context, ch *client.Changes) (bool, error) {
	return gitbridge.Unchanged(ctx, ch.Source, ch.Base, ch.Now)
}

// resumeRun goes on with a run. Its name may be the one argument before "--".
func (a *app) resumeRun(ctx context.Context, k *kept, c sandbox.Config, dir string, names []string) error {
	k.name, k.resume, c.Store = strings.Join(names, ""), true, ""
	if c.Fork != "" {
		return fail.New(fail.Usage, "--resume and --fork cannot be used together")
	}
	if k.dir = dir; dir == "" {
		wd, err := a.cwd()
		if err != nil {
			return err
		}
		k.dir = wd
		if k.name != "" {
			if err := a.onRun(ctx, k.name, func(r *runRow, _ *client.Client) error { k.dir = r.Dir; return nil }); err != nil {
				return err
			}
		}
	}
	return a.runKept(ctx, k, c)
}
