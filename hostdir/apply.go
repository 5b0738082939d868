package hostdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

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
	// Base is the state that the directory had, and Now the state that it is to get.
	Base, Now *tree.State
	Conflicts threeway.Rule // of paths that changed in the directory, too
	// Choose returns what becomes of single paths, nil for all of them.
	Choose func(path string) Choice
	// MergeLines merges the files that changed on both sides. Nil: these are conflicts.
	MergeLines threeway.Merger
	Name       string // of the workspace, in the names of branches that git gets
	// Merge merges the branches of git that both sides moved, if they are checked out.
	Merge  bool
	DryRun bool
	// Undo is set if Base was made from Now by an apply that is undone.
	Undo bool
	// Own is set if Base was read from the directory itself.
	Own bool
	// Everything applies what .amberignore names and what amberfs wrote for agents, too.
	Everything bool
	// Wrote returns, for a path at which amberfs writes for agents, a function that reports whether
	// a file there changed by that alone; nil for other paths.
	Wrote func(path string) func(was, is []byte) bool
	// Prefetch, if set, is called with the objects that are read next.
	Prefetch func([]cas.Hash) error
	Progress func(stream.Progress) // called now and then, nil for never
	// Waiting, if set, is called once when another apply to the directory is under way.
	Waiting func()
	// Git knows the repositories of the directory. Nil: they are files, and nothing is ignored.
	Git Git
	// Record, if set, is called before the first change of the directory and, with after set, when the last
	// one was made or failed. read feeds to a sink what the directory has at the paths of the apply that a
	// state does not have. If the first call fails, nothing is changed.
	Record func(after bool, read func(was *tree.State, sink stream.Sink) error) error
	Read   ReadOptions // of Record
}

// Applied is what was applied, or the conflicts.
type Applied struct {
	Dir       string             `json:"dir"`
	Changed   int                `json:"changed"` // paths
	Files     int                `json:"files"`   // of them, without directories and git directories
	Paths     []graft.PathChange `json:"paths"`
	Conflicts []string           `json:"conflicts,omitempty"`
	Skipped   []stream.Omission  `json:"skipped,omitempty"`
	LeftOut   []string           `json:"left_out,omitempty"` // the paths that ApplyOptions.Everything applies, and links to forks
	Notes     []stream.Omission  `json:"notes,omitempty"`    // what others have of the paths
	DryRun    bool               `json:"dry_run,omitempty"`
	Executes  []naming.BytePath  `json:"executes,omitempty"` // set by the caller: paths that other programs execute
	// Incomplete: the directory's file system refused attributes, which are in Skipped.
	Incomplete bool                  `json:"incomplete,omitempty"`
	Git        []threeway.Repository `json:"git,omitempty"`
	// Partial: it could not be finished. Changed and Paths are what was applied.
	Partial bool `json:"partial,omitempty"`
	// Plan is Paths and Conflicts, with what changed.
	Plan []Planned `json:"-"`
}

// ErrConflict is wrapped by the error of an Apply that was refused.
var ErrConflict = errors.New("changed in the directory, too")

// Apply applies the differences from o.Base to o.Now to a directory of the host: contents, modes,
// owners, modification times, links and extended attributes. What is equal in both stays as the
// directory has it. A path that changed, and at which the directory has neither version, is a conflict.
// Then nothing is changed, unless the rule decides.
//
// A planner decides what becomes of each path, and a writer does it; see step for what it promises.
// One apply at a time changes a directory. Others wait, and plan after it has ended. All paths are
// opened beneath the directory without following symbolic links, even if a program replaces one
// meanwhile. If an apply cannot be finished, Applied has what was applied.
func Apply(ctx context.Context, dir string, o ApplyOptions) (*Applied, error) {
	host, err := openHost(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer host.close()

	// One apply of this user at a time. Without a lock a change by another one is noticed when a path
	// gets its name.
	how := unix.LOCK_EX
	if o.DryRun {
		how = unix.LOCK_SH
	}
	if host.locked, err = lockDir(ctx, host.root, how, o.Waiting); err != nil {
		return nil, err
	}

	host.src, host.states = o.Source, []*tree.State{o.Base, o.Now}
	texts := &textLog{host: host}
	defer texts.close()

	o.Source = o.Source.WithLog(texts.over)
	pl := &planner{
		ctx: ctx, o: o, host: host, res: &Applied{Dir: dir, Paths: []graft.PathChange{}, DryRun: o.DryRun}, tree: newHostTree(ctx, host, &o, texts),
		changes: make(map[string]tree.Change), files: make(map[*threeway.File]*hostFile), lost: make(map[fileKind][]*tree.Inode),
	}
	defer func() { pl.repos.close() }()

	if err := pl.planAll(); err != nil {
		return nil, err
	}
	if err := pl.result(); err != nil {
		return pl.res, err
	}
	if err := pl.lookAround(); err != nil || o.DryRun {
		return pl.res, err
	}

	w := newWriter(ctx, host, o, pl.res)
	w.repos = pl.repos
	for _, d := range pl.steps {
		w.steps = append(w.steps, d.step)
	}

	return pl.res, pl.record(w.run)
}

// count counts the file of a step.
func (r *Applied) count(s *step) {
	if file, _ := ChangedFile(s.change); file {
		r.Files++
	}
}

func (r *Applied) skip(p *tree.Path, why string) {
	r.Skipped = append(r.Skipped, stream.Omission{Path: p.Short(), Reason: why})
}

// inGitOrder puts what is below .git after the work itself.
func inGitOrder(p string) int {
	if strings.Contains("/"+p, "/.git/") {
		return 1
	}
	return 0
}

// errBlocked means that files would have to be removed that only the directory has. No rule
// decides that.
var errBlocked = errors.New("these changes would delete files that exist only there; move those first")

// Explain explains an error of Apply to a person.
func Explain(err error, res *Applied) error {
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

	e.Err = err
	return e
}
