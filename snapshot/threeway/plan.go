package threeway

import (
	"context"
	"errors"
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An Interval has the changes of one side: from a base to theirs.
type Interval struct {
	Base, Theirs  *tree.State
	Applied       *tree.State     // an earlier state of Ours that an apply wrote to Theirs after Base, or nil
	View          uint32          // the view of Theirs
	Changes       []tree.Change   // the changes to merge, from Base to Theirs, in the order of tree.Diff
	DisputedPaths map[string]bool // paths of Changes that are conflicts, because other actors changed them, too
	WholeDirs     []string        // directories that a merge takes as a whole (see splitWholeDirs) and that both sides changed; not in Changes
	TakenPaths    []string        // paths that get the version of Theirs, even if Ours changed them; not in Changes
}

// A Plan is the planned result of a merge. The caller sets the fields down to GitOptions.
type Plan struct {
	Source     *tree.Source
	StoreText  func(ctx context.Context, r io.Reader) (*content.Content, error) // stores merged texts
	Ours       *tree.State
	View       uint32                 // the view of Ours
	Now        int64                  // the time of the merge, in ns
	Merge      Merger                 // nil: texts are not merged
	ListCharge *budget.Charge         // charged with the memory of the plan
	SkipPaths  map[string]bool        // paths that keep the version of Ours, with all paths below them
	Rule       func(path string) Rule // returns the rule for a conflict at a path
	ByPath     bool                   // treat a renamed file as a removed file and a new one
	Decisions  map[string]Decision    // texts for single files, by path
	Git        GitMerger              // merges the git directories of an interval; nil: they are merged as files
	GitOptions

	Repositories []Repository // result of Git

	conflictList
	files         plannedFiles
	stored        []*content.Content // merged texts
	usedDecisions map[string]bool    // paths of Decisions whose decision was used
}

// pathCost is the memory of a path in a plan, in bytes, without its name.
const pathCost = 700

// Collect adds a change to an interval, and charges the memory of the change to ListCharge.
func (p *Plan) Collect(ctx context.Context, i *Interval, c tree.Change) error {
	n := c.Path.Len()
	if n >= unix.PathMax {
		return errs.New(errs.NameTooLong, "%s is too long a path to be merged", c.Path.Short())
	}
	i.Changes = append(i.Changes, c)
	return errors.Join(turns.Yield(ctx), p.ListCharge.TryAdd(pathCost+int64(n)))
}

// Run plans the merge. It calls take, which calls TakeInterval for each interval. If TakeInterval finds new conflicts
// in which the plan keeps ours, Run plans again without these paths.
func (p *Plan) Run(take func() error) error {
	p.conflictList = conflictList{rule: p.Rule, skip: p.SkipPaths, inConflict: make(map[string]bool), keptOurs: make(map[string]bool), dirOnOneSide: make(map[string]bool)}
	p.usedDecisions = make(map[string]bool)

	for planAgain := true; planAgain; {
		p.files = newPlannedFiles(p.Source, p.Ours, p.View)
		if err := take(); err != nil {
			return err
		}

		planAgain = false
		for _, filePath := range p.Conflicts {
			if p.Rule(filePath) == KeepOurs && !p.keptOurs[filePath] {
				p.keptOurs[filePath], planAgain = true, true
			}
		}
	}

	slices.Sort(p.Conflicts)
	return nil
}

// File returns the file of the plan at a path, nil if there is none. For all hard links of a file it returns one
// pointer.
func (p *Plan) File(filePath string) (*File, error) { return p.files.fileAt(filePath) }

// FileOf returns the file of the plan that continues the inode n of ours, nil if the plan removes all names of n.
func (p *Plan) FileOf(n *tree.Inode) (*File, error) {
	f := p.files.presentFile(n)
	names, err := p.files.namesOf(f, 1)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return f, nil
}

// Versions returns the inodes at a path in ours and in the plan, nil where the path does not exist.
func (p *Plan) Versions(filePath string) (ours, planned *tree.Inode, err error) {
	if ours, err = p.files.presentAt(filePath); err != nil {
		return nil, nil, err
	}

	f, err := p.files.fileAt(filePath)
	if f != nil {
		planned = f.node
	}

	return ours, planned, err
}

// Stored returns a state that references the merged texts, nil if there are none. StoreText has stored the texts.
// The caller must commit them, and protect the state from gc (Store.Hold) until other states reference them.
func (p *Plan) Stored() (st *tree.State, err error) {
	for i, c := range p.stored {
		n := &tree.Inode{Ino: tree.RootIno + uint64(i), Mode: unix.S_IFREG, Nlink: 1, Content: c}
		if st == nil {
			st = tree.New(1, n)
		} else if err := st.Put(p.Source, 1, n); err != nil {
			return nil, err
		}
	}
	return st, nil
}
