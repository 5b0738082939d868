package service

import (
	"bufio"
	"context"
	"errors"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/archive"
	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// importTree reads a tree from the stream of a client, and puts the whole tree into the workspace in one step. The
// daemon must not open the files, because they may be in this mount. So the client opens them, with the rights of its
// user. It sends large files as descriptors, see package descriptors.
func (imp *imports) importTree(ctx context.Context, r *Request, a Import) (Imported, error) {
	base, rest, err := graftPoint(r, string(a.Path))
	if err != nil {
		return Imported{}, err
	}

	in := bufio.NewReader(r.In)
	if _, err := in.Peek(1); err != nil { // reserve no memory before the client sends
		return Imported{}, err
	}

	release, err := r.budget(TextMemory).Take(ctx, importer.MemoryNeeded)
	if err != nil {
		return Imported{}, err
	}
	defer release()

	// No state refers to the imported objects yet, so gc must wait until endImport is called.
	endImport := sync.OnceFunc(imp.store.BeginImport())
	defer endImport()

	now := time.Now().UnixNano()
	dirMeta := stream.Meta{Mode: 0o777 &^ a.Umask, UID: r.Caller.UID, GID: r.Caller.GID, Atime: now, Mtime: now}
	dest := importer.Destination{Dir: rest, DirMeta: dirMeta, IsWorkspaceRoot: base == "" && rest == ""}
	o := stream.Options{
		Owner: importOwner(r.Caller, a.From), Limits: stream.Limits{Entries: a.MaxFiles, Bytes: a.MaxBytes},
	}
	g := snapshot.GraftOptions{Path: base, GivenPath: string(a.Path), Caller: r.Caller}
	if a.From == FromImage {
		defer imp.sweepImages()
		imp.blobsLock.RLock()
		defer imp.blobsLock.RUnlock()
		g.CopyRootAttrs = rest == ""
	}

	g.Tree, err = buildTree(ctx, r.source, imp.objects, dest, func(b *importer.Builder) error {
		switch a.From {
		case FromTar:
			return archive.ReadTar(ctx, in, b.Add, o)
		case FromImage:
			g.Image, err = imp.readImage(ctx, in, archive.NewLayers(b.AddLayerEntry, o), a)
			return err
		}
		o.ReceiveFile = r.NextFile
		return stream.Read(ctx, in, func(e stream.Entry) error {
			e.Ctime, e.Btime = 0, 0 // the copy has new times of change and birth
			return b.Add(e)
		}, o)
	})
	if err != nil {
		endImport()
		return Imported{}, imp.abandon(ctx, r, err)
	}

	// From here on, the hold of the tree protects its objects.
	defer imp.store.Hold(g.Tree)()

	endImport()
	done, err := r.Workspace.Graft(ctx, g)
	if err != nil {
		return Imported{}, err
	}

	imp.log.Info("import", "from", a.From, "path", string(a.Path), "files", done.Files, "bytes", done.Bytes)

	return Imported{Path: string(a.Path), GraftResult: done, Image: g.Image}, nil
}

// importOwner returns the owner that all imported files get, nil if each keeps its owner in the source. Files of a
// directory keep their owners. Files of an archive keep them only if the caller is root, because an archive can name
// any owner.
func importOwner(c actors.Caller, from string) *stream.Owner {
	if from == FromGit || (from == FromTar || from == FromImage) && c.UID != 0 {
		return &stream.Owner{UID: c.UID, GID: c.GID}
	}
	return nil
}

// abandon lets gc free the objects of a failed import. If the disk is full, it runs gc now. It returns
// the error to report.
func (imp *imports) abandon(ctx context.Context, r *Request, err error) error {
	imp.store.CollectSoon()
	if errs.ScriptKind(err) != errs.NoSpace {
		return err
	}
	if _, err := imp.store.GC(ctx, func(int64, int64) {}); err != nil {
		r.log.Warn("gc after an import that did not fit", "err", err)
	}

	return errs.Fail(errs.NoSpace, "%w", err).WithHint("nothing was imported: free space on the disk of the store and import again")
}

// buildTree calls the function read, which adds entries to a builder. It syncs the objects of the tree to the disk,
// and returns the tree. The caller protects the objects from gc.
func buildTree(ctx context.Context, src *tree.Source, objects objectStore, dest importer.Destination, read func(*importer.Builder) error) (*tree.State, error) {
	b := importer.New(ctx, src, objects, dest)
	if err := read(b); err != nil {
		return nil, err
	}

	return finishTree(objects, b)
}

// finishTree returns the tree of a builder, and syncs its objects to the disk first.
func finishTree(objects objectStore, b *importer.Builder) (*tree.State, error) {
	st, err := b.Finish()
	if err != nil {
		return nil, err
	}

	return st, objects.Commit()
}

// graftPoint splits a path into base, the deepest directory of the path that exists, and the rest.
func graftPoint(r *Request, p string) (base, rest string, err error) {
	p = strings.Trim(path.Clean("/"+p), "/")
	if top, _, _ := strings.Cut(p, "/"); naming.IsControlDir(top) {
		return "", "", errs.Fail(errs.Invalid, "%s is a name that amberfs reserves", top)
	}

	st, release, err := r.Workspace.HoldState("")
	if err != nil {
		return "", "", err
	}
	defer release()

	for base = p; base != ""; {
		n, err := st.Resolve(r.source, base)
		switch {
		case err == nil && n.IsDir():
			return base, rest, nil
		case err == nil:
			return "", "", errs.Fail(errs.Exist, "%s exists and is not a directory", base)
		case errors.Is(err, tree.ErrNotExist):
		case errors.Is(err, tree.ErrNotDir), errors.Is(err, tree.ErrSymlink):
			return "", "", errs.Fail(errs.Invalid, "%s goes through something that is not a directory", p)
		default:
			return "", "", err
		}

		rest = path.Join(path.Base(base), rest)
		if base = path.Dir(base); base == "." {
			base = ""
		}
	}

	return "", rest, nil
}

// refresh merges the changes of the directory with which the workspace was filled. The client reads the
// directory with the rights of its user, and sends the entries that differ from the state OpenedChanges.Base.
func (imp *imports) refresh(ctx context.Context, r *Request, a Refresh) (Refreshed, error) {
	base, releaseBase, err := r.Workspace.Directory().Hold(ctx)
	if err != nil {
		return Refreshed{}, err
	}
	defer releaseBase()

	id, _ := base.ID()
	if a.Base != "" && a.Base != id.String() {
		return Refreshed{}, errs.Fail(errs.Busy, "the workspace was refreshed meanwhile").WithHint("do it again")
	}

	now, release, err := imp.readOverlay(ctx, r, id)
	if err != nil {
		return Refreshed{}, err
	}
	defer release()

	if now == nil {
		return Refreshed{snapshot.MergeResult{Changes: snapshot.Changes{Paths: []graft.PathChange{}, DryRun: a.DryRun}}}, nil
	}

	result, err := r.Workspace.Directory().Refresh(ctx, now, snapshot.MergeOptions{
		MergeRules: a.MergeRules, MergeBranch: a.Merge, Resolve: a.Resolve, RefuseDiverged: a.RefuseDiverged, Merge: gitbridge.MergeConfigs(r.textMerger().Merge), Git: r.merger().Repositories, FromDirectory: r.Caller.ViaSocket, Caller: r.Caller, ListCharge: r.listMemoryCharge(),
	})
	return Refreshed{result}, explainConflict(err, Refreshed{result}, result.Conflicts, "changed in the directory and in the workspace; nothing was changed",
		"decide with --prefer workspace (--ours) or --prefer dir (--theirs)")
}

// readOverlay reads from r.In the entries that differ from the sealed state base, and returns a copy of base with
// these entries. The copy is protected from gc until release is called. If r.In has no entries, st is nil.
func (imp *imports) readOverlay(ctx context.Context, r *Request, base cas.Hash) (st *tree.State, release func(), err error) {
	free, err := r.budget(TextMemory).Take(ctx, importer.MemoryNeeded)
	if err != nil {
		return nil, nil, err
	}
	defer free()
	defer imp.store.BeginImport()()

	b, err := importer.NewFrom(ctx, r.source, imp.objects, importer.Destination{IsWorkspaceRoot: true}, base)
	if err != nil {
		return nil, nil, err
	}

	changed := false
	if err := stream.Read(ctx, r.In, func(e stream.Entry) error {
		changed = true
		return addOverlayEntry(b, e)
	}, stream.Options{}); err != nil {
		return nil, nil, imp.abandon(ctx, r, err)
	}
	if !changed {
		return nil, func() {}, nil
	}

	if st, err = finishTree(imp.objects, b); err != nil {
		return nil, nil, imp.abandon(ctx, r, err)
	}

	return st, imp.store.Hold(st), nil
}

// addOverlayEntry changes one path of the tree with which b began: it adds the entry e, or e is a whiteout and
// deletes the file.
func addOverlayEntry(b *importer.Builder, e stream.Entry) error {
	if e.Path == "." {
		return b.Add(e)
	}
	return b.AddLayerEntry(e)
}

// OverlayState returns a copy of the sealed state base with the entries that the function feed passes to a sink. It
// stores changed pages and the contents of changed files in objects.
func OverlayState(ctx context.Context, src *tree.Source, objects content.ObjectStore, base cas.Hash, feed func(stream.Sink) error) (*tree.State, error) {
	b, err := importer.NewFrom(ctx, src, objects, importer.Destination{IsWorkspaceRoot: true}, base)
	if err != nil {
		return nil, err
	}
	if err := feed(func(e stream.Entry) error { return addOverlayEntry(b, e) }); err != nil {
		return nil, err
	}
	return b.Finish()
}

// recordApply records the state of a directory before an apply (if a.Number is 0) or after it. The client sends the
// entries of the directory that differ from the state a.Base or, after the apply, from the state that was recorded
// before it.
func (imp *imports) recordApply(ctx context.Context, r *Request, a RecordApply) (RecordedApply, error) {
	base := a.Base
	if a.Number != 0 {
		known, err := r.Workspace.Ops().ByNumber(a.Number)
		if err != nil {
			return RecordedApply{}, err
		}
		if known.Apply == nil {
			return RecordedApply{}, errs.Fail(errs.Invalid, "operation %d is no apply", a.Number)
		}
		base = known.Apply.Before
	}

	id, err := cas.ParseHash(base)
	if err != nil {
		return RecordedApply{}, errs.Fail(errs.Invalid, "base: %w", err)
	}

	st, release, err := imp.readOverlay(ctx, r, id)
	if err != nil {
		return RecordedApply{}, err
	}
	defer release()

	done := RecordedApply{Number: a.Number, State: base}
	if st != nil {
		done.State = idOf(st)
	}

	if a.Number != 0 {
		return done, r.Workspace.Ops().EndApply(a.Number, done.State, r.Caller)
	}

	if _, err := cas.ParseHash(a.Now); err != nil {
		return RecordedApply{}, errs.Fail(errs.Invalid, "now: %w", err)
	}
	done.Number, err = r.Workspace.Ops().BeginApply(a.Dir, catalogue.DirApply{FilledStore: a.Own, Before: done.State, AppliedState: a.Now}, r.Caller)

	return done, err
}

func (*imports) undoneApply(_ context.Context, r *Request, a UndoneApply) (None, error) {
	return None{}, r.Workspace.Ops().MarkApplyUndone(a.Number, r.Caller)
}
