package gitdir

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

// An IndexEntry is an entry of an index: a path, its object, and the attributes that the file had when git last
// compared it with the object.
type IndexEntry struct {
	Path  string
	Mode  uint32
	ID    string
	Stage int  // 0; for a path in conflict 1 (base), 2 (ours) or 3 (theirs)
	Skip  bool // skip-worktree: a sparse checkout left the file out

	intentToAdd bool // git add -N made the entry: git treats the file as untracked
	offset      int  // the offset of the entry in the index

	Ctime, Mtime int64  // ns
	Ino          uint32 // the lower 32 bits of the inode number
	Size         uint32
}

// hasObject reports whether an entry names an object of the repository, which a working tree has as a file. The entry of
// a submodule names none: the object is in the submodule's repository, and a working tree has a directory. An entry with
// Mode 0 names none, because it removes a path, nor does a nil entry.
func (e *IndexEntry) hasObject() bool {
	const gitlink, mask = 0o160000, 0o170000
	return e != nil && e.Mode != 0 && e.Mode&mask != gitlink
}

// errIndex means that this package cannot read an index: it is split, has entries for whole directories, or is
// damaged.
var errIndex = errors.New("an index of a kind that amberfs does not read")

// parseIndex reads the entries of an index, except entries of git add -N. idLen is the length of object ids in bytes.
// Errors: errIndex.
func parseIndex(b []byte, idLen int) ([]IndexEntry, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 12+idLen || !bytes.HasPrefix(b, []byte("DIRC")) {
		return nil, fmt.Errorf("%w: it is damaged", errIndex)
	}
	version := binary.BigEndian.Uint32(b[4:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("%w: version %d", errIndex, version)
	}

	r := &indexReader{text: string(b), count: int(binary.BigEndian.Uint32(b[8:])), offset: 12, idLen: idLen, version: version}
	out := make([]IndexEntry, 0, min(r.count, len(b)/(idOffset+idLen)))
	ids := make([]byte, 0, 2*idLen*cap(out))

	for range r.count {
		before := r.lastPath
		e, err := r.next()
		if err != nil {
			return nil, err
		}
		if e.Path < before {
			return nil, fmt.Errorf("%w: it is not in order", errIndex)
		}
		if !e.intentToAdd {
			out, ids = append(out, e), hex.AppendEncode(ids, b[e.offset+idOffset:][:idLen])
		}
	}

	text := string(ids)
	for i := range out {
		out[i].ID, text = text[:2*idLen], text[2*idLen:]
	}

	for rest := b[r.offset:]; len(rest) > idLen+8; {
		size := int(binary.BigEndian.Uint32(rest[4:]))
		if name := string(rest[:4]); name == "link" || name == "sdir" {
			return nil, fmt.Errorf("%w: it has the extension %s", errIndex, name)
		}
		if size < 0 || size > len(rest)-8 {
			return nil, fmt.Errorf("%w: it is damaged", errIndex)
		}
		rest = rest[8+size:]
	}

	return out, nil
}

// parseEntries reads the entries of the index once. If a file may have changed after the index was written and still
// have the same time, parseEntries sets Mtime of its entry to 0: then the contents of the file are compared, as git
// does.
func (s *state) parseEntries() error {
	if s.entriesParsed {
		return s.indexErr
	}

	s.entriesParsed = true
	s.parsedEntries, s.indexErr = parseIndex(s.index, s.idLen)
	for i := range s.parsedEntries {
		if e := &s.parsedEntries[i]; e.Mtime >= s.indexMtime || e.Size == 0 { // git sets the size in such an entry to 0
			e.Mtime = 0
		}
	}

	return s.indexErr
}

// entries returns the entries of the index, none if the index cannot be read.
func (s *state) entries() []IndexEntry {
	_ = s.parseEntries()
	return s.parsedEntries
}

// smudgedCopy returns a copy of an index with the given entries for a new index file. In the copy, the size is 0 for
// each file that changed in the second in which the index was written, or later: such a file may have changed again and
// have the same time and size. Git recognizes these files by the time of the index file, which the new file does not
// have. If the size is 0, git compares the contents. paths are the paths of these files. writtenAt is the time of the
// index file in nanoseconds.
func smudgedCopy(index []byte, entries []IndexEntry, idLen int, writtenAt int64) (out []byte, paths []string) {
	const sizeOffset = 36 // offset of the size in an entry
	out = bytes.Clone(index)
	for _, e := range entries {
		if e.Size > 0 && (e.Mtime == 0 || e.Mtime/1e9 >= writtenAt/1e9) { // parseEntries has set some times to 0
			paths = append(paths, e.Path)
			binary.BigEndian.PutUint32(out[e.offset+sizeOffset:], 0)
		}
	}

	if end := len(out) - idLen; !bytes.Equal(out[end:], make([]byte, idLen)) { // with index.skipHash, zeros replace the hash
		sum := hash.Hash(sha1.New())
		if idLen > sha1.Size {
			sum = sha256.New()
		}
		sum.Write(out[:end])
		copy(out[end:], sum.Sum(nil))
	}

	return out, paths
}

// Flags of an entry.
const (
	flagExtended = 1 << 14
	flagSkip     = 1 << 14 // in the extended flags
	flagIntent   = 1 << 13 // in the extended flags
)

// An indexReader reads the entries of an index one after the other.
type indexReader struct {
	text     string // the bytes of the index; paths are substrings of it
	count    int    // number of entries
	offset   int    // offset of the next entry
	lastPath string // path of the last entry that was read
	idLen    int
	version  uint32
}

const idOffset = 40 // offset of the id in an entry

// next reads one entry, without its id.
func (r *indexReader) next() (e IndexEntry, err error) {
	b := r.text[r.offset:]
	fixed := idOffset + r.idLen + 2
	if len(b) < fixed+2 {
		return e, fmt.Errorf("%w: it is cut off", errIndex)
	}

	u16 := func(i int) uint32 { return uint32(b[i])<<8 | uint32(b[i+1]) }
	u32 := func(i int) uint32 { return u16(4*i)<<16 | u16(4*i+2) }
	e.offset, e.Ctime, e.Mtime = r.offset, int64(u32(0))*1e9+int64(u32(1)), int64(u32(2))*1e9+int64(u32(3))
	e.Ino, e.Mode, e.Size = u32(5), u32(6), u32(9)
	flags := u16(idOffset + r.idLen)
	e.Stage = int(flags >> 12 & 3)
	if flags&flagExtended != 0 {
		extended := u16(fixed)
		e.Skip, e.intentToAdd = extended&flagSkip != 0, extended&flagIntent != 0
		fixed += 2
	}

	before, name := "", b[fixed:]
	if r.version == 4 {
		if before, name, err = r.sharedPrefix(name); err != nil {
			return e, err
		}
	}

	name, rest, ok := strings.Cut(name, "\x00")
	if !ok {
		return e, fmt.Errorf("%w: it is damaged", errIndex)
	}

	end := len(b) - len(rest)
	if r.version < 4 {
		if end = (end + 7) &^ 7; end > len(b) { // NULs pad an entry to a multiple of 8 bytes
			return e, fmt.Errorf("%w: it is cut off", errIndex)
		}
	}

	r.offset += end
	e.Path = before + name
	r.lastPath = e.Path
	return e, nil
}

// sharedPrefix decodes the path of an entry in an index of version 4. It returns the beginning that the path shares
// with the path of the previous entry, and the rest of the entry.
func (r *indexReader) sharedPrefix(b string) (before, rest string, err error) {
	strip := 0

	for k := range b[:min(len(b), 5)] { // the number is encoded like the offsets in a pack
		if k > 0 {
			strip = (strip + 1) << 7
		}

		strip |= int(b[k] & 0x7f)
		if b[k]&0x80 == 0 {
			if strip > len(r.lastPath) {
				break
			}
			return r.lastPath[:len(r.lastPath)-strip], b[k+1:], nil
		}
	}

	return "", "", fmt.Errorf("%w: it is damaged", errIndex)
}
