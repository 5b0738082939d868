package hostdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Source *tree.Source
	// Base is the state that the directory had before, and Now is the state that the apply writes to it.
	Base, Now    *tree.State
	ConflictRule threeway.Rule // the rule for paths that changed both in the workspace and in the directory
	// Choose returns the choice for a path. If it is nil, all changes are applied.
	Choose func(path string) Choice
	// MergeLines merges files that changed on both sides. If it is nil, such files are conflicts.
	MergeLines    threeway.Merger
	WorkspaceName string // the workspace's name, from which the names of new git branches are made
	// Merge merges git branches that moved both in the workspace and in the directory, if they are checked out.
	Merge  bool
	DryRun bool
	// Undo is set if the apply undoes another apply, which replaced Now by Base.
	Undo bool
	// BaseFromDir is set if Base was read from the directory itself.
	BaseFromDir bool
	// Everything also applies the paths that .amberignore names, and the files that amberfs wrote for agents.
	Everything bool
	// Hidden are paths of the directory that the workspace does not show. The apply does not change them.
	Hidden Hidden
	// AgentChange returns nil for a path at which amberfs does not write files for agents. For other paths, it returns
	// a function that reports whether amberfs alone made the difference between two texts of the file.
	AgentChange func(path string) func(was, is []byte) bool
	// Prefetch, if set, is called with the objects that are read next.
	Prefetch func([]cas.Hash) error
	Progress func(stream.Progress) // called from time to time; may be nil
	// OnWait, if set, is called once when another apply to the directory is under way.
	OnWait func()
	// Git reads the repositories of the directory. If it is nil, repositories are ordinary files, and no path is
	// ignored.
	Git Git
	// Record, if set, is called twice: before the first change of the directory with after=false, and after the last
	// change with after=true, even if the apply failed. If the first call fails, the directory is not
	// changed. Its argument readChanges compares the directory with a state, at the paths of the apply, and
	// feeds the entries that differ in the directory to a sink.
	Record func(after bool, readChanges func(state *tree.State, sink stream.Sink) error) error
	Read   ReadOptions // the options with which readChanges, the argument of Record, reads the directory
}

// An ApplyResult has the result of an apply: the changes, or the conflicts.
type ApplyResult struct {
	Dir       string             `json:"dir"`
	Changed   int                `json:"changed"` // number of changed paths
	Files     int                `json:"files"`   // number of changed files, without those in git directories
	Paths     []graft.PathChange `json:"paths"`
	Conflicts []string           `json:"conflicts,omitempty"`
	Skipped   []stream.Omission  `json:"skipped,omitempty"`
	LeftOut   []string           `json:"left_out,omitempty"` // changed paths that were not applied, see leftOutPaths
	Hidden    []string           `json:"hidden,omitempty"`   // paths of the workspace that are hidden paths of the directory
	// Notes are about paths that other programs use, files with hard links elsewhere, and attributes that
	// copies lack.
	Notes    []stream.Omission `json:"notes,omitempty"`
	DryRun   bool              `json:"dry_run,omitempty"`
	Executes []naming.BytePath `json:"executes,omitempty"` // set by the caller: paths that other programs execute
	// Incomplete is set if the directory's file system refused attributes, which are in Skipped.
	Incomplete bool                  `json:"incomplete,omitempty"`
	Git        []threeway.Repository `json:"git,omitempty"`
	// Partial is set if the apply failed in the middle. Changed and Paths have what was applied.
	Partial bool `json:"partial,omitempty"`
	// Plan has a planned change for each path in Paths and Conflicts.
	Plan []PlannedChange `json:"-"`
}

// ErrConflict is wrapped by the error of an Apply that was refused because of a conflict.
var ErrConflict = errors.New("changed in the directory, too")

// Apply applies the differences from o.Base to o.Now to a directory of the host: contents, modes, owners,
// modification times, links and extended attributes. A path that is equal in Base and Now is not changed. A path
// that differs in Base and Now is in conflict if the directory has neither version. If a rule does not decide a
// conflict, the apply changes no path and fails.
//
// A planner decides the action for each path, and a writer carries it out. The comment of the type step has the
// promises of the writer. A lock of the directory lets only one apply change it at a time: a second apply waits, and
// makes its plan after the first has ended. All paths are opened beneath the directory without following symbolic
// links, even if a program replaces a directory by a link during the apply. If an apply fails in the middle,
// ApplyResult lists the changes that were made.
func Apply(ctx context.Context, dir string, o ApplyOptions) (*ApplyResult, error) {
	return apply(ctx, dir, o, nil)
}

// apply implements Apply. onAdvance, which only tests set, is called after each change of a step's state.
func apply(ctx context.Context, dir string, o ApplyOptions, onAdvance func(*step)) (*ApplyResult, error) {
	host, err := openHost(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer host.close()

	// One apply of this user runs at a time. If the directory cannot be locked, this apply may run at the same
	// time as another. It then fails when it places a file at a path that the other apply has changed.
	lockType := int16(unix.F_WRLCK)
	if o.DryRun {
		lockType = unix.F_RDLCK
	}
	if host.lockFile, err = lockDir(ctx, host.rootFD, lockType, o.OnWait); err != nil {
		return nil, err
	}

	host.src, host.states = o.Source, []*tree.State{o.Base, o.Now}
	texts := &textLog{host: host}
	defer texts.close()

	o.Source = o.Source.WithLog(texts.setBelow)
	pl := &planner{
		ctx: ctx, o: o, host: host, res: &ApplyResult{Dir: dir, Paths: []graft.PathChange{}, DryRun: o.DryRun}, tree: newHostTree(ctx, host, &o, texts),
		changes: make(map[string]tree.Change), files: make(map[*threeway.File]*hostFile), lostFiles: make(map[fileKind][]*tree.Inode),
	}
	defer func() { pl.repos.close() }()

	if err := pl.planAll(); err != nil {
		return nil, err
	}
	if err := pl.listChanges(); err != nil {
		return pl.res, err
	}
	if err := pl.reportOtherUsers(); err != nil || o.DryRun {
		return pl.res, err
	}

	w := newWriter(ctx, host, o, pl.res)
	w.repos, w.onAdvance = pl.repos, onAdvance
	for _, d := range pl.steps {
		if !d.movedWithDir {
			w.steps = append(w.steps, d.step)
		}
	}

	return pl.res, pl.recordAround(w.run)
}

// countFile adds 1 to r.Files if a step changes a file.
func (r *ApplyResult) countFile(s *step) {
	if file, _ := IsFileChange(s.change); file {
		r.Files++
	}
}

// addSkipped adds a path to r.Skipped.
func (r *ApplyResult) addSkipped(p *tree.Path, why string) {
	r.Skipped = append(r.Skipped, stream.Omission{Path: p.Short(), Reason: why})
}

// gitOrder returns 1 for paths below .git, which are sorted after all other paths, and else 0.
func gitOrder(p string) int {
	if _, _, ok := threeway.SplitGitPath(p); ok {
		return 1
	}
	return 0
}

// errBlocked is part of the error for changes that would remove files that only the directory has. No rule allows
// these changes.
var errBlocked = errors.New("these changes would delete files that exist only there; move those first")

// Explain returns an error of Apply with a message and a hint for the user.
func Explain(err error, res *ApplyResult) error {
	if !errors.Is(err, ErrConflict) {
		if errors.Is(err, fs.ErrNotExist) {
			return errs.Fail(errs.NotExist, "%w", err)
		}
		return err
	}

	e := errs.Fail(errs.Conflict, "%s changed in %s and in the workspace; nothing was changed", english.Plural(len(res.Conflicts), "path", "paths"), res.Dir).
		WithHint("%s", threeway.DecideHint("decide with --prefer dir (--ours) or --prefer workspace (--theirs)", res.Conflicts))
	if errors.Is(err, errBlocked) {
		e.Hint = errBlocked.Error()
	}

	return e.WithCause(err)
}
