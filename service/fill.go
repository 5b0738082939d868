package service

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// FillOptions say what of a directory a new store is filled with.
type FillOptions struct {
	Exclude []string // directories
	Show    func(Progress)
	// Skip is called for each path that cannot be read. It is left out.
	Skip func(path string, reason error)
}

func (o FillOptions) dir(later *gitbridge.Later) gitbridge.DirOptions {
	return gitbridge.DirOptions{
		ImportOptions: gitbridge.ImportOptions{Skip: o.Skip, Progress: func(p gitbridge.Progress) {
			o.Show(Progress{What: "importing", Done: p.Files, Unit: "files", Bytes: p.Bytes})
		}},
		Exclude: o.Exclude, Later: later,
	}
}

// Fill makes the workspace of a new store equal to a directory, but for the
// directories excluded.
func Fill(ctx context.Context, s *snapshot.Store, dir string, o FillOptions) error {
	finished := s.Importing()
	defer finished()
	at := importAt{made: gitbridge.Meta{Mode: unix.S_IFDIR | 0o755}}
	st, err := build(ctx, s, at, func(sink gitbridge.Sink) error {
		return gitbridge.ReadDir(ctx, dir, sink, o.dir(nil))
	})
	if err != nil {
		return err
	}
	ws := s.Main()
	if _, err := ws.Graft(ctx, snapshot.GraftOptions{Tree: st}); err != nil {
		return err
	}
	root, err := st.Get(s.Source(), tree.RootIno)
	if err != nil {
		return err
	}
	if err := setRoot(s.Forest(), ws.Root(), root); err != nil {
		return err
	}
	return ws.Begin(live.Caller{UID: uint32(os.Getuid()), PID: uint32(os.Getpid())})
}

// FillLater does so without the contents of files, which are read when they are needed,
// at the latest by the first checkpoint.
func FillLater(ctx context.Context, s *snapshot.Store, dir string, o FillOptions) error {
	defer s.Importing()()
	later, err := gitbridge.NewLater(dir)
	if err != nil {
		return err
	}
	b := importer.New(ctx, s.Source(), s.CAS(), gitbridge.Meta{Mode: unix.S_IFDIR | 0o755})
	defer b.Close()
	b.Later()
	b.AtRoot()
	if err := gitbridge.ReadDir(ctx, dir, b, o.dir(later)); err != nil {
		return err
	}
	st, next, epoch, err := b.Unsealed()
	if err != nil {
		return err
	}
	return s.BeginOutside(st, next, epoch, later, live.Caller{UID: uint32(os.Getuid()), PID: uint32(os.Getpid())})
}

// BringIn returns when all that FillLater left outside is in the store.
func BringIn(ctx context.Context, s *snapshot.Store) error {
	if _, err := s.Main().Snapshots().WaitSealed(ctx, snapshotBase); err != nil {
		return err
	}
	return s.Checkpoint(ctx)
}

// setRoot gives the root of a workspace the attributes of a tree's root, which a graft
// leaves as they are.
func setRoot(f *live.Forest, root live.NodeID, n *tree.Inode) error {
	mode := n.Mode & 0o7777
	for _, x := range n.Xattrs {
		if err := f.SetXattr(root, x.Name, x.Value, 0, false); err != nil {
			return err
		}
	}
	_, err := f.SetAttr(root, live.SetAttr{Mode: &mode, UID: &n.UID, GID: &n.GID, Atime: &n.Atime, Mtime: &n.Mtime})
	return err
}
