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
	}

	c := sizeCounter{charge: r.listMemoryCharge(), countedLinks: map[uint64]bool{}}
	if n.IsDir() {
		c.Files = -1 // the directory itself is not counted
	}

	o := tree.WalkOptions{Paths: []string{string(a.Path)}, ByCookie: true}
	err = st.Walk(ctx, r.source, o, func(p *tree.Path, n *tree.Inode) error { return c.add(ctx, p, n) })

	return c.Sized, err
}

// A sizeCounter counts files and their bytes. A file with several names is counted once.
type sizeCounter struct {
	Sized
	charge       *budget.Charge
	countedLinks map[uint64]bool // the inode numbers of counted files with several names
	depth        int             // of the deepest directory that was counted
}

// add counts one entry.
func (c *sizeCounter) add(ctx context.Context, p *tree.Path, n *tree.Inode) error {
	const (
		linkBytes  = 512      // bytes in memory of an inode number in countedLinks
		depthBytes = 24 << 10 // bytes in memory of the names that Walk holds for one depth: tree.WalkOptions.ByCookie
	)
	if n.IsDir() && p.Depth() > c.depth {
		c.depth = p.Depth()
		if err := reserveMemory(ctx, c.charge, depthBytes); err != nil {
			return err
		}
	}

	if c.countedLinks[n.Ino] {
		return nil
	}

	c.Files++
	c.Bytes += n.FileSize()
	if n.Nlink > 1 && !n.IsDir() {
		c.countedLinks[n.Ino] = true
		if err := reserveMemory(ctx, c.charge, linkBytes); err != nil {
			return err
		}
	}

	return turns.Yield(ctx)
}
