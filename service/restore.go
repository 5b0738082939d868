package service

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func (s *Service) restore(ctx context.Context, r *Request, a Restore) (Restored, error) {
	may, err := s.reach(ctx, r, a.Paths...)
	if err != nil {
		return Restored{}, err
	}
	done, err := r.Workspace.Restore(ctx, snapshot.RestoreOptions{
		Name: a.Name, Paths: naming.PathStrings(a.Paths), Keep: naming.PathStrings(a.Keep), DryRun: a.DryRun, Caller: r.Caller,
		List: r.charge(s.Lists), May: may,
	})
	if err != nil {
		return Restored{}, err
	}
	done.Paths = listed(done.Paths)
	return Restored{RestoreResult: done, DryRun: a.DryRun, Open: s.openIn(r, done.Gone)}, nil
}

// listed is a list that is one in JSON, too.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// revert restores one path; without a name, from the newest snapshot in which
// it is not what it is now.
func (s *Service) revert(ctx context.Context, r *Request, a Revert) (Restored, error) {
	if _, err := s.reach(ctx, r, a.Path); err != nil {
		return Restored{}, err
	}
	name := a.Name
	if name == "" {
		var err error
		if name, err = s.lastDifferent(ctx, r.Workspace, string(a.Path)); err != nil {
			return Restored{}, err
		}
	}
	return s.restore(ctx, r, Restore{Name: name, Paths: []naming.BytePath{a.Path}})
}

// lastDifferent finds the newest snapshot in which path differs from now. The
// state that the workspace began from counts only for paths that were in it:
// a file that no snapshot has ever seen is not deleted by a guess.
func (s *Service) lastDifferent(ctx context.Context, ws *snapshot.Workspace, path string) (string, error) {
	now, err := ws.State()
	if err != nil {
		return "", err
	}
	for info := range ws.Snapshots().Newest() {
		if !info.Past() {
			continue
		}
		then, err := ws.StateOf(info.Name)
		if err != nil {
			return "", err
		}
		if differs, err := s.differs(ctx, then, now, path); err != nil || differs {
			return info.Name, err
		}
	}
	then, err := ws.StateOf(snapshotBase)
	if err != nil {
		return "", err
	}
	if n, err := then.Resolve(s.Store.Source(), path); err == nil && n.Ino != tree.RootIno {
		if differs, err := s.differs(ctx, then, now, path); err != nil || differs {
			return snapshotBase, err
		}
	}
	if !s.exists(now, path) {
		return "", nowhere(path)
	}
	return "", fail.New(fail.NotFound, "%s is as it is now in every snapshot", path).
		WithHint("see `amberfs history %s`", path)
}

// snapshotBase names the state that a workspace began from.
const snapshotBase = "base"

func nowhere(path string) error {
	return fail.New(fail.NotFound, "there is no %s, now or in any snapshot", path)
}

// errDiffers ends a walk that has found what it looked for.
var errDiffers = errors.New("it differs")

// differs reports whether anything at or below path differs between two states.
func (s *Service) differs(ctx context.Context, a, b *tree.State, path string) (bool, error) {
	o := tree.DiffOptions{Paths: limitTo(naming.BytePath(path))}
	err := tree.Diff(ctx, s.Store.Source(), a, b, o, func(c tree.Change) error {
		if c.What&^tree.Mtime == 0 {
			return turns.Yield(ctx) // touched, no more
		}
		return errDiffers
	})
	if errors.Is(err, errDiffers) {
		return true, nil
	}
	return false, err
}

// limitTo limits a comparison to paths; none, or the root among them, is
// everything.
func limitTo(paths ...naming.BytePath) []string {
	var out []string
	for _, p := range paths {
		if p == "" || p == "." {
			return nil
		}
		out = append(out, string(p))
	}
	return out
}
