package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ApplyOptions are the options of ApplyDir.
type ApplyOptions struct {
	Source *tree.Source
	// Base is the state that the directory had, Now the one whose changes since
	// then it is to get.
	Base, Now *tree.State
	Conflicts threeway.Rule // of paths that changed in the directory, too
	// Choose returns what becomes of single paths, nil for all of them.
	Choose func(path string) Choice
	DryRun bool
	// Prefetch, if set, is called with the objects that are read next.
	Prefetch func([]cas.Hash) error
	Progress func(Progress) // called now and then, nil for never
	// Waiting, if set, is called once when another apply to the directory is under way.
	Waiting func()
}

// Applied is what was applied, or the conflicts.
type Applied struct {
	Dir       string             `json:"dir"`
	Changed   int                `json:"changed"`
	Paths     []steps.PathChange `json:"paths"`
	Conflicts []string           `json:"conflicts,omitempty"`
	Skipped   []Omission         `json:"skipped,omitempty"`
	LeftOut   int                `json:"left_out,omitempty"` // by .amberignore, and what amberfs wrote for agents
	DryRun    bool               `json:"dry_run,omitempty"`
	// Partial: it could not be finished. Changed and Paths are what was applied.
	Partial bool `json:"partial,omitempty"`
	// Plan is Paths and Conflicts, with what changed.
	Plan []Planned `json:"-"`
}

// ErrApplyConflict is wrapped by the error of an ApplyDir that was refused.
var ErrApplyConflict = errors.New("changed in the directory, too")

// ApplyDir applies to a directory of the host what differs from o.Base to o.Now:
// contents, modes, modification times, links, extended attributes and, as root,
// owners. A path at which the directory has neither what the base has nor what
// it is to get is a conflict: nothing is touched then, unless the rule decides.
//
// One apply at a time changes a directory; the others wait, and plan when it has ended.
// All happens beneath the directory: no symbolic link in it is followed, not even
// one that a program puts there meanwhile. Everything is written beside and renamed at
// the end: an error before that, or an interruption, leaves the directory as it was.
// If the end fails, Applied says what was applied, and another run does the rest.
func ApplyDir(ctx context.Context, dir string, o ApplyOptions) (*Applied, error) {
	host, err := openHost(dir)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer host.close()
	host.linkOf = func(p *tree.Path) string {
		n, err := o.Base.Resolve(o.Source, p.String()+"/"+alternatesPath)
		if err != nil || !n.IsRegular() {
			return ""
		}
		text, _ := io.ReadAll(io.LimitReader(n.Content.Reader(o.Source.Files), maxPath)) // else it is none
		return string(text)
	}
	a := &applying{
		ctx: ctx, o: o, host: host, res: Applied{Dir: dir, Paths: []steps.PathChange{}, DryRun: o.DryRun},
		made: make(map[string]bool), kept: make(map[string]bool), gone: make(map[string]bool), linked: make(map[uint64]*applyStep),
		touched: make(map[uint64]bool), swept: make(map[string]bool),
	}
	if err := a.lock(); err != nil {
		return nil, err
	}
	var changes []tree.Change
	if err := tree.Diff(ctx, o.Source, o.Base, o.Now, tree.DiffOptions{}, func(c tree.Change) error {
		if c.Path != nil { // the directory itself stays as it is
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
	a.res.LeftOut = len(left)
	for _, c := range changes {
		if left[c.Path.String()] {
			continue
		}
		if err := a.plan(c); err != nil {
			return nil, err
		}
	}
	if err := a.mergeTexts(); err != nil {
		return nil, err
	}
	a.settleIndexes()
	if err := a.planReplaced(); err != nil {
		return nil, err
	}
	var paths []steps.PathChange
	for _, s := range a.steps {
		if s.merged == nil {
			s.merged = s.text
		}
		if s.todo && !s.forced {
			a.res.Plan = append(a.res.Plan, Planned{Change: s.change})
		}
		if s.todo {
			paths = append(paths, steps.PathChangeOf(live.StepOf(s.change)))
		}
	}
	switch {
	case len(a.blocked) > 0:
		a.res.Conflicts = a.blocked
		return &a.res, fmt.Errorf("%w: %w", ErrApplyConflict, errBlocked)
	case a.refused:
		return &a.res, ErrApplyConflict
	}
	slices.SortStableFunc(paths, func(x, y steps.PathChange) int { return inGitOrder(x.Path) - inGitOrder(y.Path) })
	a.res.Paths, a.res.Changed = append(a.res.Paths, paths...), len(paths)
	if o.DryRun {
		return &a.res, nil
	}
	return &a.res, a.run()
}

// inGitOrder puts what is below .git after the work itself.
func inGitOrder(p string) int {
	if _, _, ok := threeway.InGit(p); ok {
		return 1
	}
	return 0
}

// errBlocked is for what no rule decides: something of the directory's own would
// have to go that the snapshot does not know of.
var errBlocked = errors.New("these changes would delete files that exist only there; move those first")

// applying is one ApplyDir under way.
type applying struct {
	ctx  context.Context
	o    ApplyOptions
	host *host
	res  Applied

	steps   []*applyStep // in the order of paths, a directory before what it holds
	made    map[string]bool
	kept    map[string]bool // paths that stay as they are, with all below them
	gone    map[string]bool // paths that are to go
	blocked []string
	refused bool                  // a conflict is not decided
	linked  map[uint64]*applyStep // that has a name in the directory for an inode with several
	touched map[uint64]bool       // inodes of the directory that this run has changed
	staged  []*applyStep          // what was made beside, in that order
	locked  bool                  // no other apply changes the directory
	swept   map[string]bool       // directories in which nothing of an earlier run is left

	// What changed on both sides.
	texts      []threeway.Input
	textSteps  []*applyStep // of texts
	indexes    []*applyStep
	mergeBytes int64
}

// applyStep is one path that differs.
type applyStep struct {
	change tree.Change
	choice Choice
	seen   place
	todo   bool // it is applied, not only its time
	forced bool // over what the directory has
	// merged is the content that both sides' changes make, nil if only one changed it.
	merged  []byte
	marked  []byte // the same with conflict markers
	text    []byte // in place of what the workspace has, see Choice
	drop    bool   // it stays as the directory has it
	removed bool   // what was there made room
	temp    string // the name of what was staged, until it has its own
	done    bool
}

const minorChanges = tree.Mtime | tree.Links

// plan decides about one path. It is called for a directory before what it holds.
func (a *applying) plan(c tree.Change) error {
	if inSet(c.Path, a.kept) || a.host.passedOver(c.Path) {
		return nil
	}
	at, err := a.host.look(c.Path)
	if err != nil {
		return err
	}
	s := &applyStep{change: c, seen: at}
	p := c.Path.String()
	if c.A != nil && c.B != nil && c.What&^minorChanges == 0 {
		return a.planMinor(s)
	}
	if leave := a.choose(s); leave {
		return nil
	}
	conflict, err := a.judge(s)
	if err != nil {
		return err
	}
	if conflict {
		if decided, err := a.bothChanged(s); decided || err != nil {
			return err
		}
		if !a.conflict(s, at.way != nil && !errors.Is(at.way, unix.ENOENT)) {
			a.kept[p] = true
			return nil
		}
	}
	switch {
	case c.B == nil:
		a.gone[p] = s.todo
	case c.B.IsDir():
		a.made[p] = true
	case len(c.B.Links) > 1 && !s.todo:
		a.linked[c.B.Ino] = s
	}
	a.steps = append(a.steps, s)
	return nil
}

// planMinor is for a change of time, or of the other names that a file has: it is
// applied where the directory has the same file.
func (a *applying) planMinor(s *applyStep) error {
	c := s.change
	same, err := a.host.same(a.o.Source, c.Path, s.seen, c.A)
	if err != nil || !same {
		return err
	}
	if !c.B.IsDir() && len(c.B.Links) > 1 {
		a.linked[c.B.Ino] = s
	}
	a.steps = append(a.steps, s)
	return nil
}

// judge decides whether a path is applied, and reports a conflict.
func (a *applying) judge(s *applyStep) (conflict bool, err error) {
	c, at := s.change, s.seen
	if at.way != nil {
		// What is above it is not there, or is no directory.
		switch {
		case c.B == nil:
			return false, nil
		case a.made[c.Path.Dir.String()]:
			s.todo = true
			return false, nil
		}
		return true, nil
	}
	if c.A != nil && c.A.IsDir() && c.B != nil && c.B.IsDir() && at.isDir() {
		has := at.st.Mode & 0o7777
		s.todo = has != c.B.Mode&0o7777
		return s.todo && has != c.A.Mode&0o7777, nil
	}
	if is, err := a.isSo(s); err != nil || is {
		return false, err
	}
	if c.A != nil && c.B != nil && c.A.IsDir() != c.B.IsDir() && !at.exists {
		s.todo = true // a run that was stopped took away what was there
		return false, nil
	}
	was, err := a.host.same(a.o.Source, c.Path, at, c.A)
	s.todo = was
	return !was, err
}

// planReplaced looks into the directories that a file replaces: all that they hold
// must be known, and go.
func (a *applying) planReplaced() error {
	steps := a.steps
	a.steps = nil
	for _, s := range steps {
		c := s.change
		if s.drop || inSet(c.Path, a.kept) {
			continue
		}
		if s.todo && s.seen.isDir() && c.B != nil && !c.B.IsDir() {
			more, err := a.host.holdsMore(c.Path, a.gone)
			if err != nil {
				return err
			}
			if more && !a.conflict(s, true) {
				a.kept[c.Path.String()] = true
				continue
			}
		}
		a.steps = append(a.steps, s)
	}
	return nil
}

// inSet reports whether a path, or a directory above it, is in a set.
func inSet(p *tree.Path, set map[string]bool) bool {
	if len(set) == 0 {
		return false
	}
	for ; p != nil; p = p.Dir {
		if set[p.String()] {
			return true
		}
	}
	return false
}

// ApplyError explains an error of ApplyDir to a person.
func ApplyError(err error, res *Applied) error {
	if !errors.Is(err, ErrApplyConflict) {
		if errors.Is(err, fs.ErrNotExist) {
			return fail.New(fail.NotFound, "%w", err)
		}
		return err
	}
	e := fail.New(fail.Conflict, "%d path(s) changed in %s and in the workspace; nothing was changed", len(res.Conflicts), res.Dir).
		WithHint("decide with --ours (the directory's version) or --theirs (the workspace's)")
	if errors.Is(err, errBlocked) {
		e.Hint = errBlocked.Error()
	}
	e.Err = err
	return e
}
