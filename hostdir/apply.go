package hostdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

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
	Incomplete bool        `json:"incomplete,omitempty"`
	Git        []GitChange `json:"git,omitempty"`
	// Partial: it could not be finished. Changed and Paths are what was applied.
	Partial bool `json:"partial,omitempty"`
	// Plan is Paths and Conflicts, with what changed.
	Plan []Planned `json:"-"`
}

// ErrConflict is wrapped by the error of an Apply that was refused.
var ErrConflict = errors.New("changed in the directory, too")

// Apply applies the differences from o.Base to o.Now to a directory of the host: contents,
// modes, owners, modification times, links and extended attributes. What is equal in both stays as
// the directory has it. A path that changed, and at which the directory has neither version, is a
// conflict. Then nothing is changed, unless the rule decides.
//
// One apply at a time changes a directory. Others wait, and plan after it has ended. All paths are
// opened beneath the directory without following symbolic links, even if a program replaces one
// meanwhile. Everything is written under temporary names and renamed at the end: an error before
// that, or an interruption, leaves the directory as it was. If a rename fails, Applied has what was
// applied, and another run does the rest.
func Apply(ctx context.Context, dir string, o ApplyOptions) (*Applied, error) {
	host, err := openHost(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer host.close()
	a := &applying{
		ctx: ctx, o: o, host: host, res: Applied{Dir: dir, Paths: []graft.PathChange{}, DryRun: o.DryRun},
		willBeDir: make(map[string]bool), whole: make(map[string]bool), excluded: make(map[string]bool), removals: make(map[string]bool), linked: make(map[uint64]*applyStep), files: make(map[uint64]*hostFile), lost: make(map[fileKind][]*tree.Inode),
		touched: make(map[uint64]bool), written: make(map[uint64]bool), swept: make(map[string]bool), opened: make(map[uint64]*openedDir), interrupted: make(map[string]bool),
	}
	if err := a.lock(); err != nil {
		return nil, err
	}
	defer a.locked.release()
	host.openUp, host.closedMode = a.openUp, a.closedMode
	defer func() { _ = a.closeUp() }() // after an error; the next apply tries again
	var changes, top []tree.Change
	if err := tree.Diff(ctx, o.Source, o.Base, o.Now, tree.DiffOptions{}, func(c tree.Change) error {
		if c.Path == nil {
			top = append(top, c)
		} else {
			changes = append(changes, c)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	left, err := a.leftOut(changes)
	if err != nil {
		return nil, err
	}
	a.res.LeftOut = topmost(left, changes)
	changes = slices.DeleteFunc(changes, func(c tree.Change) bool { return left[c.Path.String()] })
	defer func() {
		if a.repos.Close != nil {
			a.repos.Close()
		}
	}()
	changes, whole := threeway.SplitWhole(changes)
	if changes, err = a.planGit(changes); err != nil {
		return nil, err
	}
	apart, err := a.planWhole(whole)
	if err != nil {
		return nil, err
	}
	changes = threeway.SortChanges(append(changes, apart...))
	if err := a.findFiles(changes); err != nil {
		return nil, err
	}
	for _, c := range slices.Concat(top, changes) {
		if err := a.plan(c); err != nil {
			return nil, err
		}
	}
	if err := a.planReplaced(); err != nil {
		return nil, err
	}
	var paths []graft.PathChange
	for _, s := range a.steps {
		if s.merged == nil {
			s.merged = s.text
		}
		if s.todo && !s.forced {
			a.res.Plan = append(a.res.Plan, Planned{Change: s.change})
		}
		if s.todo {
			paths = append(paths, graft.PathChangeOf(graft.StepOf(s.change)))
		}
	}
	switch {
	case len(a.blocked) > 0:
		a.res.Conflicts = a.blocked
		return &a.res, fmt.Errorf("%w: %w", ErrConflict, errBlocked)
	case a.refused:
		return &a.res, ErrConflict
	}
	slices.SortStableFunc(paths, func(x, y graft.PathChange) int { return inGitOrder(x.Path) - inGitOrder(y.Path) })
	a.res.Paths, a.res.Changed = append(a.res.Paths, paths...), len(paths)
	a.countFiles(func(s *applyStep) bool { return s.todo })
	if err := a.lookAround(); err != nil || o.DryRun {
		return &a.res, err
	}
	return &a.res, a.run()
}

// countFiles counts the files of some steps.
func (a *applying) countFiles(of func(*applyStep) bool) {
	a.res.Files = 0
	for _, s := range a.steps {
		if file, _ := ChangedFile(s.change); file && of(s) {
			a.res.Files++
		}
	}
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

// applying is one Apply under way.
type applying struct {
	ctx  context.Context
	o    ApplyOptions
	host *host
	res  Applied

	steps     []*applyStep    // in the order of paths, a directory before its entries
	willBeDir map[string]bool // paths that are a directory after the apply
	excluded  map[string]bool // paths that stay as they are, with all below them
	whole     map[string]bool // directories of Mercurial and jj that are taken as a whole, and what a merge of git writes
	removals  map[string]bool // paths that are removed
	blocked   []string
	refused   bool                       // a conflict is not decided
	files     map[uint64]*hostFile       // by the workspace's inode
	lost      map[fileKind][]*tree.Inode // see findLost
	linked    map[uint64]*applyStep      // by inode: the first step that writes it, to which others link
	touched   map[uint64]bool            // inodes of the directory of which this run made or removed a name
	written   map[uint64]bool            // inodes of the directory that this run has overwritten
	staged    []*applyStep               // what has a temporary name, in the order of its creation
	times     []dirTime                  // of directories in which this run makes or removes names
	locked    *dirLock                   // no other apply changes the directory; nil if that is not known
	swept     map[string]bool            // directories that were cleaned up after earlier runs
	opened    map[uint64]*openedDir      // by their inodes

	interrupted map[string]bool // directories that an earlier apply began to change

	mergedBytes int64 // of merged texts

	repos Repositories
}

// applyStep is one path that differs.
type applyStep struct {
	change     tree.Change
	choice     Choice
	seen       place       // what the directory had at the path when it was planned
	here, was  *tree.Inode // the file of seen and its version in the base, nil if its attributes were not merged
	todo       bool        // more than the time changes
	attrsOnly  bool        // the path has its file already, and only attributes change
	from       *tree.Path  // the file is renamed from there, see linkKept
	source     *applyStep  // the step of the path from
	moved      bool        // another step renames the file at the path
	overwrites bool        // the file is overwritten, see overwrite
	forced     bool        // it replaces what the directory changed
	// merged is the content with the changes of both sides, nil if only one changed it.
	merged   []byte
	marked   []byte // the same with conflict markers
	text     []byte // the content in place of the workspace's, see Choice
	temp     string // the temporary name of what was staged
	isStaged bool
	done     bool
}

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
