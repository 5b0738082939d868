package gitbridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// Info describes the snapshot in a commit.
type Info struct {
	Name    string
	ID      string // hex, "" if the snapshot is not stored yet
	Message string
	Time    time.Time // when the snapshot was made: the date of the commit
	// Parents are the commits of exports of earlier snapshots, the latest first. The first one
	// that the repository has becomes the commit's parent.
	Parents []string
	// Authors are the actors that made the changes. A single actor is the commit's author;
	// several are its co-authors.
	Authors []string
}

// Base is an export of a related snapshot. An export with a base reads only the differences
// between the two snapshots.
type Base struct {
	Commit string
	State  func() (*tree.State, error)
}

// ExportOptions select what is exported, and where.
type ExportOptions struct {
	Source *tree.Source
	State  *tree.State
	Info   Info

	Repo   string // root of a working tree, or a git directory
	Create bool   // Repo is the store's own repository; it is made if it does not exist
	Ref    string // "" is DefaultRef
	// TrustConfig runs the filters that the configuration of Repo names, and
	// accepts a Repo that refers to another repository, such as a worktree.
	TrustConfig bool

	Message   string // instead of Info.Message
	Gitignore bool   // leave out the paths that git add would ignore
	NoParent  bool   // make a commit without parent

	// Bases are tried in order. The export uses the first one that the repository has and that was
	// exported with the same settings. Without such a base, the export reads all files.
	Bases    []Base
	CacheDir string // directory of the records of exports; "": the export keeps no record

	// Admit, if set, is called before bytes are written, and may refuse them. A negative number
	// gives bytes back. After a successful export, the sum of the calls is the size of the new
	// objects.
	Admit    func(bytes int64) error
	MaxBytes int64 // limit of the bytes of contents that the export reads; 0: no limit
	// Prefetch, if set, is called with the objects that the export reads from Source next. It may
	// keep them in memory until then.
	Prefetch func([]cas.Hash) error
	Progress func(stream.Progress) // called once per 256 files; may be nil
}

// Result describes a finished export.
type Result struct {
	Commit   string `json:"commit"`
	Tree     string `json:"tree"`
	Ref      string `json:"ref"`
	Parent   string `json:"parent,omitempty"`
	Previous string `json:"previous,omitempty"` // the object of Ref before the export, "" for none
	Files    int    `json:"files"`              // in the commit
	Written  int    `json:"written"`            // number of contents sent to git
	Ignored  int    `json:"ignored"`            // paths left out by ignore rules; an ignored directory counts as one
	// Incremental means that the export read only the differences from a Base. Then Ignored counts only
	// paths among the differences.
	Incremental bool `json:"incremental"`

	Skipped []stream.Omission `json:"skipped"` // paths that are not in the commit
	Reduced []stream.Omission `json:"reduced"` // paths in the commit that lost attributes
}

// Export writes a snapshot as a commit and sets Ref to the commit. The package comment describes the
// tree of the commit. Export fails with ErrRefMoved if another process changed Ref during the export,
// and with syscall.ENOSPC if the disk is full. After an error Ref is unchanged.
func Export(ctx context.Context, o ExportOptions) (*Result, error) {
	trust := trustData

	switch {
	case o.Create:
		trust = trustNone
		if err := initOwn(ctx, o.Repo); err != nil {
			return nil, err
		}

	case o.TrustConfig:
		trust = trustAll
	}

	repo, err := openRepository(ctx, o.Repo, trust)
	if err != nil {
		return nil, err
	}
	o.Ref = cmp.Or(o.Ref, DefaultRef(o.Info.Name, o.Create))
	if err := repo.checkRef(ctx, o.Ref); err != nil {
		return nil, err
	}

	previous, err := repo.readRef(ctx, o.Ref)
	if err != nil {
		return nil, err
	}

	set, err := repo.settings(ctx)
	if err != nil {
		return nil, err
	}

	x := &exporter{
		ctx: ctx, options: o, repo: repo, settings: set, records: records{o.CacheDir},
		nested: nestedReader{o.Source, o.State}, links: make(map[string]bool), result: Result{Skipped: []stream.Omission{}, Reduced: []stream.Omission{}},
	}
	if err := x.lookUpCommits(); err != nil {
		return nil, err
	}

	res, err := x.export()
	if err != nil {
		return nil, err
	}

	res.Ref, res.Previous = o.Ref, previous
	if previous != res.Commit {
		err := repo.updateRef(ctx, o.Ref, previous, res.Commit, "amberfs: snapshot "+o.Info.Name)
		if errors.Is(err, ErrRefMoved) {
			// It is no error if a concurrent export of the same snapshot has moved the ref: it has made the
			// same commit.
			if now, rerr := repo.readRef(ctx, o.Ref); rerr == nil && now == res.Commit {
				err = nil
			}
		}
		if err != nil {
			return nil, err
		}
	}

	return res, nil
}

// An exporter carries out one export.
type exporter struct {
	ctx      context.Context
	options  ExportOptions
	repo     *repository
	settings *settings
	records  records

	base      *exportRecord // the earlier export that this one starts from, or nil
	baseState *tree.State   // the tree of base
	changeSet *changeSet    // the paths to compare; nil: all paths

	writer   *writer
	nested   nestedReader
	result   Result
	links    map[string]bool // paths of nested repositories
	filtered []entry         // files that git has to convert, by their whole paths

	worktree *attrWorktree
}

// lookUpCommits sets result.Parent and base to the first commits of Info.Parents and Bases that are in the
// repository.
func (x *exporter) lookUpCommits() error {
	var parents []string
	if !x.options.NoParent {
		parents = x.options.Info.Parents
	}

	ask := slices.Clone(parents)
	for _, b := range x.options.Bases {
		ask = append(ask, b.Commit)
	}

	ask = slices.DeleteFunc(ask, func(id string) bool { return !x.repo.isID(id) })
	if len(ask) == 0 {
		return nil
	}

	out, err := x.repo.gitWithInput(x.ctx, nil, strings.NewReader(strings.Join(ask, "\n")+"\n"), "rev-list", "--no-walk=unsorted", "--ignore-missing", "--stdin")
	if err != nil {
		return fmt.Errorf("looking for the commits before: %w", err)
	}

	found := strings.Fields(string(out))
	if i := slices.IndexFunc(parents, func(id string) bool { return slices.Contains(found, id) }); i >= 0 {
		x.result.Parent = parents[i]
	}

	fingerprint := x.repo.fingerprint(x.settings, x.options.Gitignore)

	for _, b := range x.options.Bases {
		e, ok := x.records.load(b.Commit)
		if !ok || !slices.Contains(found, b.Commit) || e.Fingerprint != fingerprint {
			continue
		}
		if x.baseState, err = b.State(); err != nil {
			return fmt.Errorf("reading an earlier snapshot: %w", err)
		}

		x.base = &e
		break
	}

	return nil
}

// isID reports whether s is a whole object id.
func (r *repository) isID(s string) bool {
	return len(s) == r.idLength() && objectID(s) == s
}

// export writes the objects and returns the result. It changes no ref.
func (x *exporter) export() (res *Result, err error) {
	q, err := newQuarantine(x.repo)
	if err != nil {
		return nil, err
	}
	defer q.remove()

	m := &meter{admit: x.options.Admit, maxSent: x.options.MaxBytes, measure: func() (int64, error) { _, n, err := q.listObjects(); return n, err }}
	defer func() {
		if err != nil {
			_ = m.correct(0) // an error is ignored: the call only gives the admitted bytes back, and Admit does not refuse that
		}
	}()

	if x.writer, err = newWriter(x.ctx, x.repo, q, m); err != nil {
		return nil, err
	}
	defer x.writer.close()

	if x.worktree, err = newAttrWorktree(x.ctx, x.repo, x.settings, m); err != nil {
		return nil, err
	}
	defer x.worktree.close()

	if err = x.write(); err == nil {
		err = q.release(m)
	}

	return &x.result, withENOSPC(err)
}

// write sends the snapshot, or its differences from the base, to git and makes the commit.
func (x *exporter) write() (err error) {
	res := &x.result
	if x.base != nil {
		if x.changeSet, err = x.dropChangedPaths(); err != nil {
			return err
		}
		res.Incremental = x.changeSet != nil
	}

	root, err := x.options.State.Resolve(x.options.Source, "")
	if err != nil {
		return fmt.Errorf("reading the snapshot: %w", err)
	}
	if err := x.exportDir("", root); err != nil {
		return err
	}
	if err := x.convert(); err != nil {
		return err
	}

	if res.Incremental {
		res.Skipped = append(res.Skipped, x.uncomparedReports(x.base.Skipped)...)
		res.Reduced = append(res.Reduced, x.uncomparedReports(x.base.Reduced)...)
	}

	byPath := func(a, b stream.Omission) int { return strings.Compare(a.Path, b.Path) }
	slices.SortStableFunc(res.Skipped, byPath)
	slices.SortStableFunc(res.Reduced, byPath)

	c := commit{author: x.settings.author, committer: x.settings.committer, time: x.options.Info.Time, message: x.message(), parent: res.Parent}
	if by := x.options.Info.Authors; len(by) == 1 {
		c.author = identityOf(by[0])
	}
	if res.Incremental {
		c.tree = x.base.Tree
	}
	if res.Commit, res.Tree, err = x.writer.commit(c); err != nil {
		return err
	}

	res.Written = x.writer.blobCount
	if res.Incremental {
		if res.Files, err = x.countFiles(res.Tree); err != nil {
			return err
		}
	}

	// Without the record the next export is only slower, so an error of save is ignored.
	_ = x.records.save(res.Commit, exportRecord{
		x.repo.fingerprint(x.settings, x.options.Gitignore), res.Tree, res.Files, slices.Collect(maps.Keys(x.links)), res.Skipped, res.Reduced})

	return nil
}

// identityOf returns the git identity of an actor.
func identityOf(actor string) string { return fmt.Sprintf("%s <%s@localhost>", actor, actor) }

// message returns the message of the commit: the snapshot's message, then the trailers.
func (x *exporter) message() string {
	info := x.options.Info
	text := strings.TrimSpace(strings.ReplaceAll(cmp.Or(x.options.Message, info.Message), "\x00", ""))
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nSnapshot: %s\n", cmp.Or(text, "Snapshot "+info.Name), info.Name)
	if info.ID != "" {
		fmt.Fprintf(&b, "Snapshot-Id: %s\n", info.ID)
	}

	fmt.Fprintf(&b, "Snapshot-Time: %s\n", info.Time.UTC().Format(time.RFC3339Nano))
	if n := len(x.result.Skipped); n > 0 {
		fmt.Fprintf(&b, "Snapshot-Skipped: %d\n", n)
	}
	if n := len(x.result.Reduced); n > 0 {
		fmt.Fprintf(&b, "Snapshot-Reduced: %d\n", n)
	}

	if len(info.Authors) > 1 {
		for _, name := range info.Authors {
			fmt.Fprintf(&b, "Co-authored-by: %s\n", identityOf(name))
		}
	}

	return b.String()
}
