package hostdir

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/stream"
)

// dataParts returns the parts of an open file that are not holes. If they cannot be found, it returns the whole file as
// one part.
func dataParts(fd int, size int64) []content.DataRange {
	parts := []content.DataRange{}

	for off := int64(0); off < size; {
		begin, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}

		end := size
		if err == nil && len(parts) < stream.MaxParts-1 {
			end, err = unix.Seek(fd, begin, unix.SEEK_HOLE)
		}
		if err != nil {
			return []content.DataRange{{N: size}}
		}

		if end = min(end, size); begin < end {
			parts = append(parts, content.DataRange{Off: begin, N: end - begin})
		}

		off = end
	}

	return parts
}
