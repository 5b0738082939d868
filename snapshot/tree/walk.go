package tree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Walk calls fn for the file at path and everything below it: depth first, a
// directory before what it holds, names in order of their bytes. The path given
// to fn is relative to the root, which itself is "". When fn returns SkipDir for
// a directory, what it holds is left out; any other error ends the walk.
func (s *State) Walk(ctx context.Context, src *Source, path string, fn func(path *Path, n *Inode) error) error {
	n, err := s.Resolve(src, path)
	if err != nil {
		return err
	}
	p, err := ParsePath(path)
	if err != nil {
		return err
	}
	return s.walk(ctx, src, p, n, fn)
}

func (s *State) walk(ctx context.Context, src *Source, path *Path, n *Inode, fn func(path *Path, n *Inode) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := fn(path, n)
	if n.IsDir() && errors.Is(err, SkipDir) {
		return nil
	}
	if err != nil || !n.IsDir() || n.Dir.root == nil {
		return err
	}
	ents, err := n.Dir.sorted(src)
	if err != nil {
		return fmt.Errorf("list %q: %w", path.String(), err)
	}
	for e := range ents.all() {
		child, err := path.At(e.Name)
		if err != nil {
			return err
		}
		c, err := s.child(src, n, e)
		if err != nil {
			return fmt.Errorf("%s: %w", child, err)
		}
		if err := s.walk(ctx, src, child, c, fn); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns all entries in order of their names.
func (d *Dir) sorted(src *Source) (*byName, error) {
	l := new(byName)
	err := d.List(src, 0, func(e Dirent, _ uint64) bool {
		l.add(e)
		return true
	})
	if err != nil {
		return nil, err
	}
	l.sort()
	return l, nil
}

// byName are the entries of a directory in some 16 bytes each and their names: there may be
// millions, which would take 50 bytes each as they are in pages.
type byName struct {
	blocks [][]byte // of whole entries: length of the name, name, type, inode number
	at     []uint64 // number of the block << blockBits | offset
}

const (
	blockBits = 12
	// byNameMost is how much an entry takes at most.
	byNameMost = 1 + 255 + 1 + binary.MaxVarintLen64
)

func (l *byName) add(e Dirent) {
	last := len(l.blocks) - 1
	if last < 0 || len(l.blocks[last])+byNameMost > 1<<blockBits {
		l.blocks = append(l.blocks, nil)
		last++
	}
	l.at = append(l.at, uint64(last)<<blockBits|uint64(len(l.blocks[last])))
	b := append(l.blocks[last], byte(len(e.Name)))
	b = append(b, e.Name...)
	b = append(b, byte(e.Type>>12))
	l.blocks[last] = binary.AppendUvarint(b, e.Ino)
}

func (l *byName) name(at uint64) []byte {
	b := l.blocks[at>>blockBits][at%(1<<blockBits):]
	return b[1 : 1+int(b[0])]
}

func (l *byName) sort() {
	slices.SortFunc(l.at, func(a, b uint64) int { return bytes.Compare(l.name(a), l.name(b)) })
}

// all returns the entries in order.
func (l *byName) all() iter.Seq[Dirent] {
	return func(yield func(Dirent) bool) {
		for _, at := range l.at {
			name := l.name(at)
			b := l.blocks[at>>blockBits][at%(1<<blockBits):][1+len(name):]
			ino, _ := binary.Uvarint(b[1:])
			if !yield(Dirent{Name: string(name), Ino: ino, Type: uint32(b[0]) << 12}) {
				return
			}
		}
	}
}
