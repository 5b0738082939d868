package forget

import (
	"context"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A ChunkFinder finds the files that contain given chunks. It reads each page of inode tables once.
type ChunkFinder struct {
	Source      *tree.Source
	Chunks      map[cas.Hash]bool
	FoundChunks map[cas.Hash]bool // the chunks that were found

	finder tree.Finder
}

// Find returns the paths of the files in a frozen state that have any of the chunks.
func (u *ChunkFinder) Find(ctx context.Context, st *tree.State) (paths []string, err error) {
	if u.finder.Match == nil {
		u.finder = tree.Finder{Source: u.Source, Match: func(n *tree.Inode) (has bool, err error) {
			err = eachChunk(u.Source, n.Content, func(h cas.Hash) {
				if u.Chunks[h] {
					has = true
					u.FoundChunks[h] = true
				}
			})
			return has, err
		}}
	}

	inos, err := u.finder.FindIn(ctx, st)
	if err != nil {
		return nil, err
	}

	for _, ino := range inos {
		n, err := st.Get(u.Source, ino)
		if err != nil {
			return nil, err
		}

		at, err := st.Paths(u.Source, n)
		if err != nil {
			return nil, err
		}
		paths = append(paths, at...)
	}

	slices.Sort(paths)
	return paths, nil
}
