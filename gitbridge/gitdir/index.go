package gitdir

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// An IndexEntry is one path of an index: its object, and the file that git saw when it was added.
type IndexEntry struct {
	Path  string
	Mode  uint32
	ID    string
	Stage int  // 0, or 1 to 3 of a conflict
	Skip  bool // skip-worktree: a sparse checkout left the file out

	intent bool // only noted to be added later: git takes it for untracked

	Ctime, Mtime int64  // ns
	Ino          uint32 // the lower 32 bits
	Size         uint32
}

// hasObject reports whether an entry leads to an object of the repository: a removed one does not, nor
// one of a submodule.
func (e IndexEntry) hasObject() bool {
	const gitlink, mask = 0o160000, 0o170000
	return e.Mode != 0 && e.Mode&mask != gitlink
}

// errIndex means that an index is of a kind that is not read here: it is split, or has whole
// directories.
var errIndex = errors.New("an index of a kind that amberfs does not read")

// parseIndex reads the entries of an index with object ids of so many bytes, without those of
// git add -N.
func parseIndex(b []byte, idLen int) ([]IndexEntry, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 12+idLen || !bytes.HasPrefix(b, []byte("DIRC")) {
		return nil, fmt.Errorf("%w: it is damaged", errIndex)
	}

	version, count := binary.BigEndian.Uint32(b[4:]), int(binary.BigEndian.Uint32(b[8:]))
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("%w: version %d", errIndex, version)
	}

	rest, before := b[12:], ""
	var out []IndexEntry

	for range count {
		e, n, err := parseEntry(rest, idLen, version, before)
		if err != nil {
			return nil, err
		}
		if e.Path < before {
			return nil, fmt.Errorf("%w: it is not in order", errIndex)
		}
		if rest, before = rest[n:], e.Path; !e.intent {
			out = append(out, e)
		}
	}

	for len(rest) > idLen+8 {
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

// smudged returns an index without the sizes of those files that were changed in the second in which
// the index was written, or later. git compares the contents of such files, as they may have changed
// again without another time or size; it knows them by the time of the index, which a new index has not.
// It also returns the paths of these files.
func smudged(index []byte, idLen int, written int64) (out []byte, all []string) {
	const size = 36 // where an entry has it
	out = bytes.Clone(index)
	version, count := binary.BigEndian.Uint32(index[4:]), int(binary.BigEndian.Uint32(index[8:]))
	at, before := 12, ""

	for range count {
		e, n, err := parseEntry(index[at:], idLen, version, before)
		if err != nil {
			return out, nil // git says what is wrong
		}
		if e.Mtime/1e9 >= written/1e9 {
			all = append(all, e.Path)
			binary.BigEndian.PutUint32(out[at+size:], 0)
		}

		at, before = at+n, e.Path
	}

	if end := len(out) - idLen; !bytes.Equal(out[end:], make([]byte, idLen)) { // index.skipHash leaves zeros
		if idLen == sha1.Size {
			sum := sha1.Sum(out[:end])
			copy(out[end:], sum[:])
		} else {
			sum := sha256.Sum256(out[:end])
			copy(out[end:], sum[:])
		}
	}

	return out, all
}

// Flags of an entry.
const (
	flagExtended = 1 << 14
	flagSkip     = 1 << 14 // of the extended ones
	flagIntent   = 1 << 13
	nameMask     = 1<<12 - 1
)

// parseEntry reads one entry and returns how many bytes it takes.
func parseEntry(b []byte, idLen int, version uint32, before string) (e IndexEntry, n int, err error) {
	fixed := 40 + idLen + 2
	if len(b) < fixed+2 {
		return e, 0, fmt.Errorf("%w: it is cut off", errIndex)
	}

	u32 := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	e.Ctime, e.Mtime = int64(u32(0))*1e9+int64(u32(1)), int64(u32(2))*1e9+int64(u32(3))
	e.Ino, e.Mode, e.Size = u32(5), u32(6), u32(9)
	e.ID = hex.EncodeToString(b[40 : 40+idLen])
	flags := binary.BigEndian.Uint16(b[40+idLen:])
	e.Stage = int(flags >> 12 & 3)
	if flags&flagExtended != 0 {
		extended := binary.BigEndian.Uint16(b[fixed:])
		e.Skip, e.intent = extended&flagSkip != 0, extended&flagIntent != 0
		fixed += 2
	}

	name := b[fixed:]

	if version == 4 {
		strip, k := 0, 0

		for ok := true; ok; k++ { // as an offset in a pack
			if k >= len(name) || k > 4 {
				return e, 0, fmt.Errorf("%w: it is damaged", errIndex)
			}
			if k > 0 {
				strip = (strip + 1) << 7
			}

			strip |= int(name[k] & 0x7f)
			ok = name[k]&0x80 != 0
		}

		end := bytes.IndexByte(name[k:], 0)
		if end < 0 || strip > len(before) {
			return e, 0, fmt.Errorf("%w: it is damaged", errIndex)
		}

		e.Path = before[:len(before)-strip] + string(name[k:k+end])
		return e, fixed + k + end + 1, nil
	}

	end := bytes.IndexByte(name, 0)
	if end < 0 {
		return e, 0, fmt.Errorf("%w: it is damaged", errIndex)
	}

	e.Path = string(name[:end])
	n = (fixed + end + 8) &^ 7
	if n > len(b) {
		return e, 0, fmt.Errorf("%w: it is cut off", errIndex)
	}

	return e, n, nil
}
