package snapshot

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A fork with hidden paths begins with states from which these paths were removed. So no view, snapshot or
// difference of the fork can have them. Files that programs create at these paths later belong to the fork.

// hiddenStates has the hidden paths of a new fork, and the ids of the states without them.
type hiddenStates struct {
	restrictions   *catalogue.Restrictions // nil: the restrictions of the parent
	matcher        *hide.Matcher           // matches the paths that the parent has and the fork does not have
	startName      string                  // the name, as in ForkOptions.Snapshot, of the state from which stateID was made
	stateID, dirID string
	releases       []func()
}

func (h *hiddenStates) release() {
	for _, release := range h.releases {
		release()
	}
}

// setRestrictions sets the restrictions of a new fork: the rules of its parent and of the options.
func (fs Forks) setRestrictions(p *forkPlan) (err error) {
	parent := fs.w.Policy()
	rules := parent
	rules.Hide = slices.Concat(parent.Hide, p.Hide)
	rules.ReadOnly = slices.Concat(parent.ReadOnly, p.ReadOnly)
	rules.HideAsEmpty = parent.HideAsEmpty || p.HideAsEmpty
	if err := rules.Check(); err != nil {
		return err
	}

	removed := rules.Hide
	if fs.w.ws.Fork {
		removed = p.Hide // a file at a path that the parent itself hides was created in the parent later, and stays
	}
	if p.matcher, err = hide.New(removed); err != nil {
		return err
	}
	if len(rules.Hide)+len(rules.ReadOnly) > 0 {
		p.restrictions = &catalogue.Restrictions{Hide: rules.Hide, HideAsEmpty: rules.HideAsEmpty, ReadOnly: rules.ReadOnly}
	}

	return nil
}

// HidesPaths reports whether a new fork has hidden paths: paths that match patterns, or that the policy hides. If
// so, New and Claim read the whole tree.
func (fs Forks) HidesPaths(patterns []string) bool {
	return len(patterns) > 0 || !fs.w.IsFork() && len(fs.w.Policy().Hide) > 0
}

// makeHiddenStates makes the states without hidden paths that a new fork begins with. They are protected from gc
// until p.release is called. The caller calls p.release, also after an error.
func (fs Forks) makeHiddenStates(p *forkPlan, from string) error {
	if p.matcher == nil {
		return nil
	}
	s := fs.w.store
	defer s.BeginImport()()

	st, dir, err := fs.startState(p, from)
	if err != nil {
		return err
	}
	if p.stateID, err = fs.sealVisible(p, st); err != nil {
		return err
	}

	// Also hide the files in the state of the host's directory, at all their hard links in it.
	dirState, release, err := s.holdDirectory(context.Background(), func() string { return dir })
	if err != nil {
		return err
	}
	p.releases = append(p.releases, release)
	if p.dirID, err = fs.sealVisible(p, dirState); err != nil {
		return err
	}

	p.startName = from
	return s.cas.Commit()
}

// startState returns the state that a new fork starts from, see catalogue.Fork, and the id of its directory.
func (fs Forks) startState(p *forkPlan, from string) (st *tree.State, dir string, err error) {
	s := fs.w.store
	err = s.forest.Update(true, func(tx *live.Tx) error {
		r := &catalogue.Fork{Name: p.Name}
		if err := r.StartFrom(s.cat, s.applier(tx), fs.w.ws, from); err != nil {
			return err
		}

		switch {
		case r.FromPresent:
			dir = fs.w.ws.DirState
			if st, err = tx.Capture(fs.w.ws.View); err == nil {
				st = tx.WithoutEmpty(st, p.placeholders)
			}
		case r.PresentOf != 0:
			dir = s.cat.Workspaces.At(r.PresentOf).DirState
			st, err = tx.Capture(r.PresentOf)
		default:
			dir = s.cat.Snapshots.At(r.FromSnapshot).DirState
			st, err = s.cat.Snapshots.At(r.FromSnapshot).Tree(s.src)
		}
		if err != nil {
			return err
		}

		p.releases = append(p.releases, s.Hold(st))

		return nil
	})
	return st, dir, err
}

// holdDirectory returns the state of a directory of the host, see WorkspaceRecord.DirState. readID returns the id
// of the state. It is called with the lock of the forest held. The state is protected from gc until release is
// called.
func (s *Store) holdDirectory(ctx context.Context, readID func() string) (st *tree.State, release func(), err error) {
	err = s.forest.Update(true, func(*live.Tx) error {
		id := readID()
		if id == "" {
			return nil
		}
		h, err := cas.ParseHash(id)
		if err != nil {
			return err
		}
		if st, err = tree.Load(s.src, h); err == nil {
			release = s.Hold(st)
		}

		return err
	})
	if err != nil || st != nil {
		return st, release, err
	}

	// The directory was only read to fill main, so its state is the base of main.
	main := s.Main()
	if _, err := main.Snapshots().WaitSealed(ctx, "base"); err != nil {
		return nil, nil, err
	}

	return main.HoldState("base")
}

// sealVisible seals a copy of a state without the hidden paths, and returns its id.
func (fs Forks) sealVisible(p *forkPlan, st *tree.State) (id string, err error) {
	s := fs.w.store
	paths, err := hiddenPaths(context.Background(), s.src, st, p.matcher)
	if err != nil {
		return "", err
	}

	if err := p.hideLinks(paths); err != nil {
		return "", err
	}

	_, h, release, err := sealWithout(context.Background(), fs.w, st, paths, p.restrictions.HideAsEmpty)
	if err == nil {
		p.releases = append(p.releases, release)
	}

	return h.String(), err
}

// sealWithout seals a copy of a state without some paths, see removePath. The copy is protected from gc until the
// returned function is called.
func sealWithout(ctx context.Context, w *Workspace, st *tree.State, paths []string, keepEmpty bool) (*tree.State, cas.Hash, func(), error) {
	s := w.store
	e := &tree.Editor{State: st.Clone(), Source: s.src, Epoch: s.forest.Counters.Epoch()}
	for _, name := range paths {
		if err := removePath(e, name, keepEmpty); err != nil {
			return nil, cas.Hash{}, nil, err
		}
	}

	release := s.Hold(e.State)
	h, err := s.sealer.SealInTurn(ctx, w.ws.View, e.State)
	if err != nil {
		release()
		return nil, h, nil, err
	}

	return e.State, h, release, nil
}

// hideLinks adds patterns for paths that are hidden because they are hard links to hidden files.
func (p *forkPlan) hideLinks(paths []string) error {
	var size int
	known := make(map[string]bool)
	for _, pattern := range p.restrictions.Hide {
		known[pattern] = true
		size += len(pattern)
	}

	for _, name := range paths {
		pattern := hide.Literal(name)
		if p.matcher.Hides(name, false) || known[pattern] {
			continue
		}
		if size += len(pattern); size > policy.MaxPolicyBytes/2 {
			return errs.New(errs.TooBig, "hidden files have too many other names; name their directories instead")
		}
		p.restrictions.Hide = append(p.restrictions.Hide, pattern)
	}

	return nil
}

// hiddenPaths returns the paths of a state that a matcher hides. It leaves out paths below hidden directories, and
// adds all other hard links to hidden files.
func hiddenPaths(ctx context.Context, src *tree.Source, st *tree.State, m *hide.Matcher) (paths []string, err error) {
	dir := ""               // the last hidden directory
	var links []*tree.Inode // hidden files with several names

	err = st.Walk(ctx, src, tree.WalkOptions{}, func(at *tree.Path, n *tree.Inode) error {
		if at == nil {
			return nil
		}

		name := at.String()
		if !naming.IsUnder(name, dir) {
			if !m.Match(name, n.IsDir()) {
				return nil
			}
			if paths = append(paths, name); n.IsDir() {
				dir = name
			}
		}

		if !n.IsDir() && len(n.Links) > 1 {
			links = append(links, n)
		}

		return nil
	})

	if err != nil {
		return nil, err
	}

	seen := make(map[uint64]bool)
	for _, n := range links {
		if seen[n.Ino] {
			continue
		}
		seen[n.Ino] = true

		names, err := st.Paths(src, n)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !m.Hides(name, false) {
				paths = append(paths, name)
			}
		}
	}

	return paths, nil
}

// removePath removes a path. If keepEmpty is set, it removes only the contents of the file or directory. The times
// of directories do not change.
func removePath(e *tree.Editor, name string, keepEmpty bool) error {
	parsed, err := tree.ParsePath(name)
	if err != nil {
		return err
	}
	n, err := e.State.InodeAt(e.Source, name)
	if err != nil || n == nil {
		return err
	}

	parentPath := ""
	if parsed.Dir != nil {
		parentPath = parsed.Dir.String()
	}
	parent, err := e.State.InodeAt(e.Source, parentPath)
	if err != nil {
		return err
	}

	dir, names := e.Own(parent.Ino), []string{parsed.Name}
	switch {
	case keepEmpty && n.IsRegular():
		n = e.Own(n.Ino)
		e.State.Bytes -= n.FileSize()
		n.Content, n.Xattrs = nil, nil
		return e.Err()

	case keepEmpty && n.IsDir():
		dir, names = e.Own(n.Ino), nil
		if err := n.Dir.List(e.Source, 0, func(d tree.Dirent, _ uint64) bool {
			names = append(names, d.Name)
			return true
		}); err != nil {
			return err
		}
	}

	mtime, ctime := dir.Mtime, dir.Ctime
	for _, name := range names {
		e.RemoveAll(dir.Ino, name, func(uint64, string, *tree.Inode, bool) {})
	}
	dir.Mtime, dir.Ctime = mtime, ctime

	return e.Err()
}
