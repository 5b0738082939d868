package diff

import (
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// binary writes the change of a file that is not text, reading it as it goes.
func (w *writer) binary(f File, before, after string) error {
	if !w.o.Binary {
		w.index(f, before[:7], after[:7])
		nameA, nameB := names(f)
		fmt.Fprintf(w, "Binary files %s and %s differ\n", nameA, nameB)
		return nil
	}
	// git apply wants whole ids here: it checks the result against them.
	w.index(f, before, after)
	w.WriteString("GIT binary patch\n")
	if err := w.literal(f.New, f.Path); err != nil {
		return err
	}
	return w.literal(f.Old, f.OldPath)
}

// literal writes one whole side of a binary patch: its length, and its
// deflated bytes in base 85, at most 52 a line.
func (w *writer) literal(n *tree.Inode, path string) error {
	fmt.Fprintf(w, "literal %d\n", Size(n))
	lines := &base85Lines{w: w}
	z := zlib.NewWriter(lines)
	if _, err := io.Copy(z, reader(w.src, n)); err != nil {
		return fmt.Errorf("reading %q: %w", path, err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("compressing %q: %w", path, err)
	}
	lines.flush()
	return w.WriteByte('\n')
}

const base85Alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// base85Lines writes bytes as the lines of a binary patch.
type base85Lines struct {
	w   *writer
	buf [52]byte
	n   int
}

func (l *base85Lines) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := copy(l.buf[l.n:], p)
		l.n += n
		p = p[n:]
		if l.n == len(l.buf) {
			l.flush()
		}
	}
	return total, nil
}

// flush writes what is buffered as one line: a letter for its length, then
// five digits for each four bytes, the last four filled up with zeros.
func (l *base85Lines) flush() {
	if l.n == 0 {
		return
	}
	if l.n <= 26 {
		l.w.WriteByte('A' + byte(l.n) - 1)
	} else {
		l.w.WriteByte('a' + byte(l.n) - 27)
	}
	clear(l.buf[l.n:])
	for i := 0; i < l.n; i += 4 {
		v := binary.BigEndian.Uint32(l.buf[i:])
		var digits [5]byte
		for k := 4; k >= 0; k-- {
			digits[k] = base85Alphabet[v%85]
			v /= 85
		}
		l.w.Write(digits[:])
	}
	l.w.WriteByte('\n')
	l.n = 0
}
