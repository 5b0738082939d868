package tree

import (
	"cmp"
	"math"
	"slices"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// Flags of an inode record: each is set if the record has an optional field.
const (
	hasRdev = 1 << iota
	hasXattrs
	hasTarget
	hasEntries
	hasContent
	hasInline // the entries are in the record, not on pages
	hasAll    = 1<<iota - 1
)

// encodeInode writes an inode whose directory or content is sealed. Mtime is written in full. Atime and ctime are
// written as differences from mtime, and btime as the difference from ctime. These differences are mostly small:
// a copy may keep the mtime of its source, but its btime is close to its ctime.
func encodeInode(e *wire.Encoder, n *Inode) {
	base := n.Content.SealedMap()
	var flags byte
	set := func(f byte, on bool) {
		if on {
			flags |= f
		}
	}

	set(hasRdev, n.Rdev != 0)
	set(hasXattrs, len(n.Xattrs) > 0)
	set(hasTarget, n.IsSymlink())
	set(hasEntries, n.IsDir() && n.Dir.Len() > 0)
	set(hasContent, n.IsRegular() && n.Content.Size() > 0)
	set(hasInline, flags&hasEntries != 0 && n.Dir.root.inline.Load() != nil)

	e.Byte(flags)
	e.Uvarint(uint64(n.Mode))
	e.Uvarint(uint64(n.UID))
	e.Uvarint(uint64(n.GID))
	e.Uvarint(uint64(n.Nlink))
	e.Varint(n.Mtime)
	e.Varint(n.Ctime - n.Mtime)
	e.Varint(n.Atime - n.Mtime)
	e.Varint(n.Btime - n.Ctime)
	links := canonicalLinks(n.Links)
	e.Uvarint(uint64(len(links)))

	for i := range links {
		e.Varint(int64(n.Ino - links[i].Parent))
		e.String(links[i].Name)
	}

	if flags&hasRdev != 0 {
		e.Uvarint(uint64(n.Rdev))
	}
	if flags&hasXattrs != 0 {
		EncodeXattrs(e, n.Xattrs)
	}
	if flags&hasTarget != 0 {
		e.String(n.Target)
	}

	if flags&hasEntries != 0 {
		e.Uvarint(uint64(n.Dir.Len()))

		if text := n.Dir.root.inline.Load(); text != nil {
			e.String(*text)
		} else {
			h, _ := n.Dir.root.id()
			e.Raw(h[:])
		}
	}

	if flags&hasContent != 0 {
		base.Encode(e)
	}
}

// canonicalLinks returns links ordered by parent and name, so that the id of a state does not depend
// on the order in which the links were made.
func canonicalLinks(links []Link) []Link {
	if slices.IsSortedFunc(links, compareLinks) {
		return links
	}
	return slices.SortedStableFunc(slices.Values(links), compareLinks)
}

func compareLinks(a, b Link) int {
	return cmp.Or(cmp.Compare(a.Parent, b.Parent), cmp.Compare(a.Name, b.Name))
}

func decodeInode(ino uint64, raw []byte) (*Inode, error) {
	d := wire.NewDecoder(raw)
	n := &Inode{Ino: ino, epoch: sealedEpoch}
	flags := d.Byte()
	if flags > hasAll {
		d.Fail("inode flags %#x", flags)
	}

	n.Mode = uint32(d.Uint(math.MaxUint32))
	n.UID = uint32(d.Uint(math.MaxUint32))
	n.GID = uint32(d.Uint(math.MaxUint32))
	n.Nlink = uint32(d.Uint(math.MaxUint32))
	n.Mtime = d.Varint()
	n.Ctime = n.Mtime + d.Varint()
	n.Atime = n.Mtime + d.Varint()
	n.Btime = n.Ctime + d.Varint()
	if flags&hasTarget != 0 != n.IsSymlink() ||
		flags&hasEntries != 0 && !n.IsDir() ||
		flags&(hasEntries|hasInline) == hasInline ||
		flags&hasContent != 0 && !n.IsRegular() {
		d.Fail("inode of mode %o with flags %#x", n.Mode, flags)
	}

	if count := d.Count(2); count > 0 {
		n.Links = make([]Link, count)
	}

	for i := range n.Links {
		l := &n.Links[i]
		l.Parent = ino - uint64(d.Varint())
		l.Name = d.String()
		if d.Err() != nil {
			return nil, d.Err()
		}
		if l.Parent == 0 || l.Parent > MaxIno || CheckName(l.Name) != nil {
			d.Fail("link %q in inode %d", l.Name, l.Parent)
		}
		if i > 0 && compareLinks(n.Links[i-1], *l) >= 0 {
			d.Fail("links not in order")
		}
	}

	orphan := n.Nlink == 0 && ino != RootIno // State.entryInode refuses orphans, so that no entry leads to one
	if names := len(n.Links); orphan && names > 0 || !orphan && (n.IsDir() && names != min(int(ino)-RootIno, 1) || !n.IsDir() && (names == 0 || names != int(n.Nlink))) {
		d.Fail("inode of mode %o with %d links and %d names", n.Mode, n.Nlink, names)
	}

	if flags&hasRdev != 0 {
		if n.Rdev = uint32(d.Uint(math.MaxUint32)); n.Rdev == 0 {
			d.Fail("device number without a number")
		}
	}

	if flags&hasXattrs != 0 {
		n.Xattrs = make([]Xattr, d.Count(2))
		if len(n.Xattrs) == 0 {
			d.Fail("extended attributes without one")
		}

		for i := range n.Xattrs {
			x := &n.Xattrs[i]
			x.Name = d.String()
			x.Value = append([]byte(nil), d.Blob()...)
			if i > 0 && n.Xattrs[i-1].Name >= x.Name {
				d.Fail("extended attributes not in order")
			}
		}
	}

	if flags&hasTarget != 0 {
		n.Target = d.String()
	}
	if flags&hasEntries != 0 {
		n.Dir.root = decodeDir(d, flags&hasInline != 0)
	}
	if flags&hasContent != 0 {
		n.Content = content.DecodeSealed(d)
	}
	if err := d.Finish(); err != nil {
		return nil, err
	}

	return n, nil
}

// decodeDir reads the number of entries of a directory. If inRecord is set, it then reads the inline entries,
// else the hash of the topmost page. Inline entries are decoded when they are used.
func decodeDir(d *wire.Decoder, inRecord bool) *page {
	n := int(d.Uint(maxEntries))
	if n == 0 {
		d.Fail("empty directory with a page")
	}
	if !inRecord {
		return sealedPage(decodeHash(d), n)
	}

	text := d.String()
	if len(text) > maxInlineSize {
		d.Fail("directory of %d bytes in the record of its inode", len(text))
	}

	p := &page{n: n}
	p.inline.Store(&text)

	return p
}
