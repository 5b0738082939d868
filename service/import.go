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
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// importTree reads a tree from the stream of a client and puts it into the workspace at once. The
// client reads the tree with the rights of its user, perhaps from this mount.
func (imp *imports) importTree(ctx context.Context, r *Request, a Import) (Imported, error) {
	base, rest, err := graftPoint(r.Workspace, string(a.Path))
	if err != nil {
		return Imported{}, err
	}

	in := bufio.NewReader(r.In)
	if _, err := in.Peek(1); err != nil { // reserve no memory while the client has sent nothing
		return Imported{}, err
	}

	// gc waits until finished is called, because no state refers to the imported objects yet.
	release, err := r.budget(Texts).Take(ctx, importer.Memory)
	if err != nil {
		return Imported{}, err
	}
	defer release()

	finished := sync.OnceFunc(imp.store.Importing())
	defer finished()

	now := time.Now().UnixNano()
	made := stream.Meta{Mode: 0o777 &^ a.Umask, UID: r.Caller.UID, GID: r.Caller.GID, Atime: now, Mtime: now}
	at := importer.At{Dir: rest, Made: made, Top: base == "" && rest == ""}
	o := stream.Options{
		Owner: ownerOf(r.Caller, a.From), Limits: stream.Limits{Entries: a.MaxFiles, Bytes: a.MaxBytes},
	}
	g := snapshot.GraftOptions{Path: base, Of: string(a.Path), Caller: r.Caller}
	if a.From == FromImage {
		defer imp.sweepImages()
		imp.blobsLock.RLock()
		defer imp.blobsLock.RUnlock()
		g.Top = rest == ""
	}

	g.Tree, err = build(ctx, imp.store, at, func(b *importer.Builder) error {
		switch a.From {
		case FromTar:
			return archive.ReadTar(ctx, in, b.Add, o)
		case FromImage:
			g.Image, err = imp.readImage(ctx, in, archive.NewLayers(b.Layer, o), a)
			return err
		}
		return stream.Read(ctx, in, func(e stream.Entry) error {
			e.Ctime, e.Btime = 0, 0 // the copy is created now
			return b.Add(e)
		}, o)
	})
	if err != nil {
		finished()
		return Imported{}, abandonImport(ctx, r, err)
	}

	// From here on, the hold of the tree protects its objects.
	defer imp.store.Hold(g.Tree)()

	finished()
	done, err := r.Workspace.Graft(ctx, g)
	if err != nil {
		return Imported{}, err
	}

	imp.log.Info("import", "from", a.From, "path", string(a.Path), "files", done.Files, "bytes", done.Bytes)

	return Imported{Path: string(a.Path), GraftResult: done, Image: g.Image}, nil
}

// ownerOf returns the owner of all imported files, nil if they keep the owners in the source. Files of a
// directory keep their owners. Files of an archive keep them only for root, because an archive can name any
// owner.
func ownerOf(c actors.Caller, from string) *stream.Owner {
	if from == FromGit || (from == FromTar || from == FromImage) && c.UID != 0 {
		return &stream.Owner{UID: c.UID, GID: c.GID}
	}
	return nil
}

// abandonImport lets gc free the objects of a failed import, at once if the disk is full. It returns
// the error to report.
func abandonImport(ctx context.Context, r *Request, err error) error {
	store := r.Workspace.Store()
	store.Abandon()
	if errs.ScriptKind(err) != errs.NoSpace {
		return err
	}
	if _, err := store.GC(ctx, func(int64, int64) {}); err != nil {
		r.log.Warn("gc after an import that did not fit", "err", err)
	}

	return errs.Fail(errs.NoSpace, "%w", err).WithHint("nothing was imported: free space on the disk of the store and import again")
}

// build returns the tree that read adds to the builder. Its objects are on disk. The caller protects
// them from gc.
func build(ctx context.Context, s *snapshot.Store, at importer.At, read func(*importer.Builder) error) (*tree.State, error) {
	b := importer.New(ctx, s.Source(), s.CAS(), at)
	if err := read(b); err != nil {
		return nil, err
	}

	return finish(s, b)
}

// finish returns the tree of a builder, whose objects are on disk then.
func finish(s *snapshot.Store, b *importer.Builder) (*tree.State, error) {
	st, err := b.Finish()
	if err != nil {
		return nil, err
	}

	return st, s.CAS().Commit()
}

// graftPoint splits a path into the deepest directory that exists, base, and the rest.
func graftPoint(ws *snapshot.Workspace, p string) (base, rest string, err error) {
	p = strings.Trim(path.Clean("/"+p), "/")
	if top, _, _ := strings.Cut(p, "/"); naming.IsControlDir(top) {
		return "", "", errs.Fail(errs.Invalid, "%s is a name that amberfs reserves", top)
	}

	st, release, err := ws.Held("")
	if err != nil {
		return "", "", err
	}
	defer release()

	for base = p; base != ""; {
		n, err := st.Resolve(ws.Store().Source(), base)
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
