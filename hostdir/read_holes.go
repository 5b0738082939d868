package hostdir

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/stream"
)

// A readableFile is a file that is open for reading.
type readableFile interface {
	io.ReaderAt
	Fd() uintptr
}

// dataParts returns the parts of a file that are not holes, and a reader of these parts; nil for a file without
// holes.
func dataParts(f readableFile, size int64) ([]content.DataRange, io.Reader, error) {
	parts, readers := []content.DataRange{}, []io.Reader{}

	for off := int64(0); off < size; {
		begin, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}

		end := size
		if err == nil && len(parts) < stream.MaxParts-1 {
			end, err = unix.Seek(int(f.Fd()), begin, unix.SEEK_HOLE)
		}
		if err != nil {
			return nil, nil, err
		}

		if end = min(end, size); begin < end {
			parts = append(parts, content.DataRange{Off: begin, N: end - begin})
			readers = append(readers, io.NewSectionReader(f, begin, end-begin))
		}

		off = end
	}
	if len(parts) == 1 && parts[0].N == size {
		return nil, nil, nil
	}

	return parts, io.MultiReader(readers...), nil
}
