package client

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The daemon hands out objects over its socket only: who has nothing but a fork must
// not be able to ask for any object whose hash he knows. Through the mount a state is
// read as what it is there, a directory, into objects of this process's own.

// readFiles makes a state of each directory below the root of the workspace. The
// caller closes what it returns.
func (c *Client) readFiles(ctx context.Context, dirs ...string) (*reading, []*tree.State, error) {
	spool, err := newSpool()
	if err != nil {
		return nil, nil, err
	}
	r := &reading{Source: tree.NewSource(spool, nil, sourceCache), prefetch: func([]cas.Hash) error { return nil }, end: spool.close}
	var states []*tree.State
	for i, dir := range dirs {
		st, err := readState(ctx, r.Source, spool, dir, uint64(i+1)<<32)
		if err != nil {
			r.Close()
			return nil, nil, err
		}
		states = append(states, st)
	}
	return r, states, nil
}

// readState makes a state of a directory. Its inodes have numbers from first on: none
// of them may be that of an inode of another state.
func readState(ctx context.Context, src *tree.Source, spool *spool, dir string, first uint64) (*tree.State, error) {
	b := importer.New(ctx, src, spool, gitbridge.Meta{})
	defer b.Close()
	b.Number(first)
	err := gitbridge.ReadDir(ctx, dir, b, gitbridge.DirOptions{
		Exclude: []string{filepath.Join(dir, snapshot.SnapshotsDir), filepath.Join(dir, snapshot.ForksDir)},
	})
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

// snapshotFiles is Snapshot through the mount.
func (c *Client) snapshotFiles(ctx context.Context, name string) (*Snapshot, error) {
	s := &Snapshot{}
	for ; !s.Info.Sealed; time.Sleep(sealTime) {
		if err := c.Do(ctx, service.Show{Name: name}, Exchange{}, &s.Info); err != nil {
			return nil, err
		}
	}
	var all service.Snapshots
	if err := c.Do(ctx, service.List{}, Exchange{}, &all); err != nil {
		return nil, err
	}
	for _, i := range all.Snapshots {
		if i.Seq < s.Info.Seq {
			for _, commit := range slices.Backward(i.GitCommits) {
				s.Parents = append(s.Parents, commit)
			}
		}
	}
	r, states, err := c.readFiles(ctx, c.snapshotDir(s.Info.Name))
	if err != nil {
		return nil, err
	}
	s.reading, s.Tree = r, states[0]
	return s, nil
}

// sealTime is how often the mount is asked whether a snapshot is sealed.
const sealTime = 5 * time.Millisecond

// changesInFiles is Changes through the mount. In a fork that is seen alone, the state
// that it began from stands for the import.
func (c *Client) changesInFiles(ctx context.Context, name string) (*Changes, error) {
	first := c.target.Root
	for up := filepath.Dir(filepath.Dir(first)); filepath.Base(filepath.Dir(first)) == snapshot.ForksDir && answers(up); {
		first, up = up, filepath.Dir(filepath.Dir(up))
	}
	now := c.target.Root
	if name != "" {
		var info snapshot.Info
		if err := c.Do(ctx, service.Show{Name: name}, Exchange{}, &info); err != nil {
			return nil, err
		}
		now = c.snapshotDir(info.Name)
	}
	r, states, err := c.readFiles(ctx, filepath.Join(first, snapshot.SnapshotsDir, "origin"), now)
	if err != nil {
		return nil, err
	}
	return &Changes{Base: states[0], Now: states[1], reading: r}, nil
}

func (c *Client) snapshotDir(name string) string {
	return filepath.Join(c.target.Root, snapshot.SnapshotsDir, name)
}

// spool keeps objects in a file without a name. It is a tree.ObjectStore.
type spool struct {
	file *os.File

	mu   sync.Mutex
	size int64
	at   map[cas.Hash]extent
}

type extent struct{ offset, length int64 }

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "amberfs-")
	if err != nil {
		return nil, fail.New(fail.KindOf(err), "cannot keep what is read: %w", err).WithHint("name a directory with room in TMPDIR")
	}
	os.Remove(f.Name())
	return &spool{file: f, at: make(map[cas.Hash]extent)}, nil
}

// Put implements tree.ObjectStore.
func (s *spool) Put(_ cas.Kind, b []byte) (cas.Hash, error) {
	h := cas.Sum(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.at[h]; ok {
		return h, nil
	}
	if _, err := s.file.WriteAt(b, s.size); err != nil {
		return h, err
	}
	s.at[h] = extent{s.size, int64(len(b))}
	s.size += int64(len(b))
	return h, nil
}

// Get implements tree.ObjectStore.
func (s *spool) Get(h cas.Hash, dst []byte) ([]byte, error) {
	s.mu.Lock()
	at, ok := s.at[h]
	s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("there is no object %s", h)
	}
	dst = slices.Grow(dst[:0], int(at.length))[:at.length]
	_, err := s.file.ReadAt(dst, at.offset)
	return dst, err
}

func (s *spool) close() { s.file.Close() }
