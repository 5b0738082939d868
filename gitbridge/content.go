package gitbridge

import (
	"io"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// contentReader reads a file of a snapshot.
type contentReader struct {
	src *tree.Source
	c   *tree.Content
}

func (r contentReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.c.ReadAt(r.src, p, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// open streams the whole of a regular file.
func open(src *tree.Source, n *tree.Inode) io.Reader {
	if n.Content == nil {
		return io.LimitReader(nil, 0)
	}
	return io.NewSectionReader(contentReader{src, n.Content}, 0, n.Content.Size())
}

// contentKey stands for the bytes of a sealed file; ok is false for a file that
// is not sealed. Equal keys mean equal bytes.
func contentKey(c *tree.Content) (key cas.Hash, ok bool) {
	base := c.Sealed()
	if base == nil {
		return key, false
	}
	buf := make([]byte, 0, 9+len(key)+len(base.Chunks)*(8+len(key)))
	buf = append(buf, base.Depth)
	buf = appendInt(buf, base.Size)
	buf = append(buf, base.Root[:]...)
	for _, chunk := range base.Chunks {
		buf = appendInt(buf, chunk.Len)
		buf = append(buf, chunk.Hash[:]...)
	}
	return cas.Sum(buf), true
}

func appendInt(b []byte, v int64) []byte {
	for shift := 0; shift < 64; shift += 8 {
		b = append(b, byte(v>>shift))
	}
	return b
}
