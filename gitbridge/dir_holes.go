package gitbridge

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
)

// maxParts is how many parts of a file with holes are distinguished. The rest is read as one part.
const maxParts = 1 << 16

// partsFit reports whether the parts of a file are in order, and in it.
func partsFit(e Entry) bool {
	at := int64(0)
	for _, p := range e.Parts {
		if p.Off < at || p.N <= 0 || p.N > e.Size-p.Off {
			return false
		}
		at = p.Off + p.N
	}
	return len(e.Parts) <= maxParts
}

// dataSize returns how many bytes Data has.
func (e Entry) dataSize() (n int64) {
	if !e.Sparse {
		return e.Size
	}
	for _, p := range e.Parts {
		n += p.N
	}
	return n
}

// dataOf returns where a file has data, and a reader of that; nil for a file without holes.
func dataOf(f *os.File, size int64) ([]content.Part, io.Reader, error) {
	parts, readers := []content.Part{}, []io.Reader{}
	for at := int64(0); at < size; {
		begin, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		end := size
		if err == nil && len(parts) < maxParts-1 {
			end, err = unix.Seek(int(f.Fd()), begin, unix.SEEK_HOLE)
		}
		if err != nil {
			return nil, nil, err
		}
		if end = min(end, size); begin < end {
			parts = append(parts, content.Part{Off: begin, N: end - begin})
			readers = append(readers, io.NewSectionReader(f, begin, end-begin))
		}
		at = end
	}
	if len(parts) == 1 && parts[0].N == size {
		return nil, nil, nil
	}
	return parts, io.MultiReader(readers...), nil
}
