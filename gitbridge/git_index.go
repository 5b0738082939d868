package gitbridge

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// sameIndexes reports whether an index of git was rewritten only because git looked at files, as
// `git status` does.
func sameIndexes(src *tree.Source, c tree.Change) (bool, error) {
	const most = 64 << 20
	var entries [2][]byte
	for i, n := range []*tree.Inode{c.A, c.B} {
		if n == nil || !n.IsRegular() || n.Size() > most || n.Mode != c.B.Mode {
			return false, nil
		}
		text, err := io.ReadAll(n.Content.Reader(src.Files))
		if err != nil {
			return false, err
		}
		if entries[i] = indexEntries(text); entries[i] == nil {
			return false, nil
		}
	}
	return bytes.Equal(entries[0], entries[1]), nil
}

// indexEntries returns what an index says apart from the files' times and numbers, and from what git
// computes from it: of each entry the mode, object, flags and path, and the undone resolutions. It
// is nil if the index cannot be read. The format is in gitformat-index(5).
func indexEntries(text []byte) []byte {
	const sha1, sha256 = 20, 32
	for _, hash := range []int{sha1, sha256} {
		if out := indexEntriesOf(text, hash); out != nil {
			return out
		}
	}
	return nil
}

func indexEntriesOf(text []byte, hash int) []byte {
	const (
		header, stat = 12, 40 // of an entry: eight times and numbers around the mode, and the size
		modeAt       = 24
		extended     = 0x4000
	)
	if len(text) < header+hash || string(text[:4]) != "DIRC" {
		return nil
	}
	version, n := binary.BigEndian.Uint32(text[4:]), binary.BigEndian.Uint32(text[8:])
	if version < 2 || version > 4 {
		return nil
	}
	out, text := []byte{}, text[:len(text)-hash]
	var name []byte
	at := header
	for range n {
		begin, flagsAt := at, at+stat+hash
		if at = flagsAt + 2; at+2 > len(text) {
			return nil
		}
		if binary.BigEndian.Uint16(text[flagsAt:])&extended != 0 {
			at += 2
		}
		flags := text[flagsAt:at]
		if version == 4 {
			cut, used := indexOffset(text[at:])
			if used == 0 || cut > len(name) {
				return nil
			}
			name, at = name[:len(name)-cut], at+used
		} else {
			name = nil
		}
		length := bytes.IndexByte(text[at:], 0)
		if length < 0 {
			return nil
		}
		name = append(bytes.Clone(name), text[at:at+length]...)
		if at += length + 1; version < 4 {
			at = begin + (at-1-begin+8)&^7 // one to eight NULs
		}
		if at > len(text) {
			return nil
		}
		out = append(out, text[begin+modeAt:begin+modeAt+4]...)
		out = append(append(append(out, text[flagsAt-hash:flagsAt]...), flags...), name...)
		out = append(out, 0)
	}
	return indexExtensions(out, text[at:])
}

// indexOffset reads a number of a variable length, as those in packs.
func indexOffset(b []byte) (n, used int) {
	for i, c := range b[:min(len(b), 4)] {
		if i > 0 {
			n++
		}
		n = n<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return n, i + 1
		}
	}
	return 0, 0
}

// indexExtensions appends the extensions that are not computed from the entries and the files.
func indexExtensions(out, text []byte) []byte {
	for len(text) > 0 {
		if len(text) < 8 {
			return nil
		}
		size := int(binary.BigEndian.Uint32(text[4:]))
		if size > len(text)-8 {
			return nil
		}
		switch string(text[:4]) {
		case "TREE", "UNTR", "FSMN", "EOIE", "IEOT":
		default:
			out = append(out, text[:8+size]...)
		}
		text = text[8+size:]
	}
	return out
}
