package service

import (
	"context"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Size has the arguments of the operation size.
type Size struct {
	Name string          `json:"name,omitempty" jsonschema:"the snapshot; if empty, the present state"`
	Path naming.BytePath `json:"path,omitempty" jsonschema:"a file or directory, relative to the workspace; if empty, everything"`
}

// Sized is the result of the operation size.
type Sized struct {
	Files int64 `json:"files" jsonschema:"number of files and directories, without the one asked for if that is a directory"`
	Bytes int64 `json:"bytes" jsonschema:"sum of the file sizes"`
}

func (z *Sized) sizeText() string {
	return BytesText(z.Bytes) + " in " + plural(z.Files, "file", "files") + "\n"
}

func (*snapshots) size(ctx context.Context, r *Request, a Size) (out Sized, err error) {
	st, release, err := holdState(r, a.Name)
	if err != nil {
		return out, err
	}
	defer release()

	if a.Path == "" || a.Path == "." {
		return Sized{Files: st.Inodes - 1, Bytes: st.Bytes}, nil
	}

	n, err := st.InodeAt(r.source, string(a.Path))
	switch {
	case err != nil:
		return out, err
	case n == nil:
		return out, errNoPath(string(a.Path))
	case !n.IsDir():
		return Sized{Files: 1, Bytes: n.FileSize()}, nil
	}

	t := sizeCounter{st: st, src: r.source, charge: r.listMemoryCharge(), countedLinks: map[uint64]bool{}}
	err = t.addTree(ctx, n)
	return t.Sized, err
}

// A sizeCounter counts the files and bytes below a directory. A file with several names is counted once.
type sizeCounter struct {
	Sized
	st           *tree.State
	src          *tree.Source
	charge       *budget.Charge
	countedLinks map[uint64]bool // the inode numbers of counted files with several names
}

// addTree counts all entries below a directory.
func (t *sizeCounter) addTree(ctx context.Context, top *tree.Inode) error {
	for dirs := []*tree.Inode{top}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]

		for after, more := uint64(0), true; more; {
			// Names are listed in parts, because a directory may have any number of them.
			var names []string
			more = false
			err := dir.Dir.List(t.src, after, func(e tree.Dirent, cookie uint64) bool {
				names, after = append(names, e.Name), cookie
				more = len(names) == maxNamesAtOnce
				return !more
			})
			if err != nil {
				return err
			}

			for _, name := range names {
				n, err := t.st.Lookup(t.src, dir, name)
				if err != nil {
					return err
				}
				if n.IsDir() {
					dirs = append(dirs, n)
				}
				if err := t.add(ctx, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

const maxNamesAtOnce = 1000

// add counts one entry.
func (t *sizeCounter) add(ctx context.Context, n *tree.Inode) error {
	const entryBytes = 512 // bytes in memory of a directory in addTree, or of an inode number in countedLinks
	hasLinks := n.Nlink > 1 && !n.IsDir()
	if t.countedLinks[n.Ino] {
		return nil
	}
	if hasLinks {
		t.countedLinks[n.Ino] = true
	}

	t.Files++
	t.Bytes += n.FileSize()
	if hasLinks || n.IsDir() {
		if err := reserveMemory(ctx, t.charge, entryBytes); err != nil {
			return err
		}
	}

	return turns.Yield(ctx)
}
