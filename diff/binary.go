package diff

import (
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// writeBinary writes the change of a file that is not text: one line or, with Options.Binary, a binary
// patch. before and after are git's ids of the two sides, "" if the side is too large for one.
func (w *writer) writeBinary(f File, before, after string) error {
	if large := max(Size(f.Before), Size(f.After)); w.opts.Binary && large > maxPatchedFileSize {
		return errs.New(errs.TooBig, "%q has %d bytes: a binary patch takes files of up to %d GiB; name other paths, or compare without binary", f.Path, large, maxPatchedFileSize>>30)
	}

	if !w.opts.Binary {
		if before != "" && after != "" {
			w.writeIndex(f, before[:7], after[:7])
		}

		nameA, nameB := sideNames(f)
		fmt.Fprintf(w, "Binary files %s and %s differ\n", nameA, nameB)
		return nil
	}

	// git apply needs whole ids here, because it checks the result against them.
	w.writeIndex(f, before, after)
	w.WriteString("GIT binary patch\n")
	if err := w.writeLiteral(f.After, f.Path); err != nil {
		return err
	}

	return w.writeLiteral(f.Before, f.OldPath)
}

// writeLiteral writes one side of a binary patch: its length, and its deflated bytes in base 85, at
// most 52 bytes a line.
func (w *writer) writeLiteral(n *tree.Inode, path string) error {
	fmt.Fprintf(w, "literal %d\n", Size(n))
	lines := &base85Lines{w: w}
	z := zlib.NewWriter(lines)
	if _, err := io.Copy(z, blobReader(w.src, n)); err != nil {
		return fmt.Errorf("reading %q: %w", path, err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("compressing %q: %w", path, err)
	}
	if len(lines.buf) > 0 {
		lines.writeLine(lines.buf)
	}

	return w.WriteByte('\n')
}

const (
	base85Alphabet  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	base85Letters   = " ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" // the letter for a line of n bytes has the index n
	base85LineBytes = 52                                                      // bytes in a full line
)

// base85Lines writes bytes as the lines of a binary patch.
type base85Lines struct {
	w   *writer
	buf []byte // the bytes of a line that is not full
}

func (l *base85Lines) Write(p []byte) (int, error) {
	l.buf = append(l.buf, p...)
	for len(l.buf) >= base85LineBytes {
		l.writeLine(l.buf[:base85LineBytes])
		l.buf = l.buf[base85LineBytes:]
	}
	return len(p), nil
}

// writeLine writes a letter for the number of bytes, then five digits for each group of four bytes. The
// last group is filled up with zeros.
func (l *base85Lines) writeLine(p []byte) {
	l.w.WriteByte(base85Letters[len(p)])

	for four := range slices.Chunk(p, 4) {
		var word [4]byte
		copy(word[:], four)
		v := binary.BigEndian.Uint32(word[:])
		var digits [5]byte
		for k := 4; k >= 0; k-- {
			digits[k] = base85Alphabet[v%85]
			v /= 85
		}

		l.w.Write(digits[:])
	}

	l.w.WriteByte('\n')
}
