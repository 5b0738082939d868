package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Make makes the store of cfg, if there is none yet, and fills it. It is what
// `run` does outside of its namespaces, where every user has a name.
func Make(ctx context.Context, cfg Config, show func(control.Progress)) error {
	_, err := os.Lstat(filepath.Join(cfg.Store, "format"))
	if err == nil && cfg.From != "" {
		return filledAlready(cfg)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	_, err = os.Lstat(cfg.Store)
	made := errors.Is(err, os.ErrNotExist)
	s, err := openStore(cfg.Store, snapshot.Options{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Quiet: true})
	if err != nil {
		return openError(cfg.Store, err)
	}
	// Another may have made it since.
	switch created := s.Created(); {
	case cfg.From == "":
	case !created:
		err = filledAlready(cfg)
	default:
		if err = fill(ctx, s, cfg, show); err != nil {
			removeStore(cfg.Store, made) // before it is closed: then it may be another's
		}
	}
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return explain(err)
	}
	return nil
}

// filledAlready is the error for --from with a store that exists.
func filledAlready(cfg Config) error {
	return fail.New(fail.Exists, "the store %s exists already, so it cannot be filled by --from", cfg.Store).
		WithHint("leave --from out, and bring %s in with `amberfs import`", cfg.From)
}

// fill makes the workspace of a new store equal to a directory.
func fill(ctx context.Context, s *snapshot.Store, cfg Config, show func(control.Progress)) error {
	finished := s.Importing()
	defer finished()
	root := &rootMeta{}
	st, err := build(ctx, s, gitbridge.Meta{Mode: unix.S_IFDIR | 0o755}, "", func(sink gitbridge.Sink) error {
		root.Sink = sink
		return gitbridge.ReadDir(ctx, cfg.From, root, gitbridge.DirOptions{
			ImportOptions: gitbridge.ImportOptions{Progress: importProgress(show)},
			Exclude:       exclude(cfg),
		})
	})
	if err != nil {
		return err
	}
	ws := s.Main()
	if _, err := ws.Graft(ctx, snapshot.GraftOptions{Tree: st, Message: "import of " + cfg.From}); err != nil {
		return err
	}
	if err := root.apply(s.Forest(), ws.Root()); err != nil {
		return err
	}
	return ws.Begin(live.Caller{UID: uint32(os.Getuid()), PID: uint32(os.Getpid())})
}

// exclude lists what must not be read when a store is filled: a mount point
// inside of the directory, but not one that is the directory itself.
func exclude(cfg Config) []string {
	out := []string{cfg.Store}
	if cfg.Mountpoint != cfg.From {
		out = append(out, cfg.Mountpoint)
	}
	return out
}

// rootMeta remembers the attributes of the root, which a graft leaves as they
// are.
type rootMeta struct {
	gitbridge.Sink
	meta gitbridge.Meta
}

// Dir implements gitbridge.Sink.
func (r *rootMeta) Dir(p string, m gitbridge.Meta) error {
	if p == "." {
		r.meta = m
	}
	return r.Sink.Dir(p, m)
}

func (r *rootMeta) apply(f *live.Forest, root live.NodeID) error {
	mode := r.meta.Mode & 0o7777
	for _, x := range r.meta.Xattrs {
		if err := f.SetXattr(root, x.Name, x.Value, 0, false); err != nil {
			return err
		}
	}
	_, err := f.SetAttr(root, live.SetAttr{
		Mode: &mode, UID: &r.meta.UID, GID: &r.meta.GID, Atime: &r.meta.Atime, Mtime: &r.meta.Mtime,
	})
	return err
}
