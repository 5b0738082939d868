package stores

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"sort"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
)

// An AskingDisk is a disk that asks before every operation whether to do it.
type AskingDisk struct {
	vfs.FS
	Ask func() error
}

type askingFile struct {
	vfs.File
	Ask func() error
}

func (h AskingDisk) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := h.Ask(); err != nil {
		return nil, err
	}
	f, err := h.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return askingFile{f, h.Ask}, nil
}

func (h AskingDisk) do(fn func() error) error {
	if err := h.Ask(); err != nil {
		return err
	}
	return fn()
}

func (h AskingDisk) Rename(from, to string) error {
	return h.do(func() error { return h.FS.Rename(from, to) })
}
func (h AskingDisk) Remove(name string) error { return h.do(func() error { return h.FS.Remove(name) }) }
func (h AskingDisk) SyncDir(name string) error {
	return h.do(func() error { return h.FS.SyncDir(name) })
}

func (f askingFile) do(fn func() error) error { return AskingDisk{Ask: f.Ask}.do(fn) }

func (f askingFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.do(func() error { n, err = f.File.ReadAt(p, off); return err })
	return n, err
}

func (f askingFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.do(func() error { n, err = f.File.WriteAt(p, off); return err })
	return n, err
}

func (f askingFile) Sync() error            { return f.do(f.File.Sync) }
func (f askingFile) Truncate(n int64) error { return f.do(func() error { return f.File.Truncate(n) }) }
func (f askingFile) Allocate(off, n int64) error {
	return f.do(func() error { return f.File.Allocate(off, n) })
}
func (f askingFile) Punch(off, n int64) error {
	return f.do(func() error { return f.File.Punch(off, n) })
}

// Digest returns a short hash of everything that a store shows.
func Digest(t *testing.T, s *snapshot.Store) string {
	t.Helper()
	all := Portrait(t, s)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%s\n%s\n", name, all[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// A Diary is what a store showed after each step, and how much of that was
// promised to survive.
type Diary struct {
	Pages []string // digests; the step under way has none yet
	Look  func(*snapshot.Store) string
	Sure  int // Pages[Sure] or a later one must be what a power cut leaves
}

// Note adds a page, unless it equals the last one.
func (d *Diary) Note(sum string) {
	if len(d.Pages) == 0 || d.Pages[len(d.Pages)-1] != sum {
		d.Pages = append(d.Pages, sum)
	}
}

// OpenOn opens or makes a store on a disk, without background work.
func OpenOn(dir string, disk vfs.FS) (*snapshot.Store, error) {
	return snapshot.Open(dir, snapshot.Options{Quiet: true, FS: disk})
}

// RandomSteps makes random changes, with history and syncs in between, and writes the
// diary. It ends at the first error that the disk is to blame for.
func RandomSteps(t *testing.T, x *Walker, d *Diary, n int) error {
	x.Halfway = func() { d.Note(d.Look(x.S)) }
	for range n {
		ws := Workspaces(x.S)
		sort.Slice(ws, func(i, j int) bool { return ws[i].View() < ws[j].View() })
		err := x.Step(ws[x.R.IntN(len(ws))])
		if Expected(err) {
			d.Note(d.Look(x.S))
			switch x.R.IntN(9) {
			case 0:
				err = x.S.Sync()
			case 1, 2:
				err = x.History()
			}
			if Expected(err) {
				d.Note(d.Look(x.S))
			}
			if k := x.R.IntN(4); Expected(err) && k == 0 {
				if err = x.S.Sync(); err == nil {
					d.Sure = len(d.Pages) - 1
				}
			}
		}
		if !Expected(err) {
			return err
		}
	}
	return nil
}
