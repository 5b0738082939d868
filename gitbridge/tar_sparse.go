package gitbridge

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/snapshot/content"
)

// The standard library reads sparse files but does not write them, so their entries
// are put together here. Their data begins with a map of what is stored, and the real
// name and size stand in the extended header, so that a program that does not know
// sparse files extracts something harmless beside the others:
// https://www.gnu.org/software/tar/manual/html_section/Sparse-Formats.html

const block = 512

// sparse writes a file with holes. parts are the rest of it, and r has their
// bytes.
func (t *TarSink) sparse(h *tar.Header, parts []Extent, r PartsReader) error {
	if err := t.tar.Flush(); err != nil {
		return err
	}
	name := h.Name
	list, stored := partList(parts, h.Size)
	head, err := sparseHead(h, int64(len(list))+stored)
	if err != nil {
		return err
	}
	t.w.Write(head)
	if _, err := t.w.WriteString(list); err != nil {
		return err
	}
	for _, e := range parts {
		if at, err := r.Next(); err != nil || at != e.Offset {
			return fmt.Errorf("reading %q: %w", name, errors.Join(err, io.ErrUnexpectedEOF))
		}
		if err := t.copy(name, t.w, r, e.Length); err != nil {
			return err
		}
	}
	_, err = t.w.WriteString(strings.Repeat("\x00", pad(int64(len(list))+stored)))
	return err
}

// partList is the map in front of the data, and how much data follows it.
func partList(parts []Extent, size int64) (list string, stored int64) {
	if len(parts) == 0 || parts[len(parts)-1].Offset+parts[len(parts)-1].Length < size {
		parts = append(slices.Clone(parts), Extent{size, 0})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", len(parts))
	for _, e := range parts {
		fmt.Fprintf(&b, "%d\n%d\n", e.Offset, e.Length)
		stored += e.Length
	}
	b.WriteString(strings.Repeat("\x00", pad(int64(b.Len()))))
	return b.String(), stored
}

// sparseHead are the headers of a file with holes of which size bytes follow.
// archive/tar passes over records named GNU.sparse, so it gets them under a name
// before all others, as long, and they are renamed in what it wrote.
func sparseHead(h *tar.Header, size int64) ([]byte, error) {
	const given, real = "!NU.sparse.", "GNU.sparse."
	markBinary(h)
	records := [][2]string{{"major", "1"}, {"minor", "0"}, {"name", h.Name}, {"realsize", strconv.FormatInt(h.Size, 10)}}
	for _, r := range records {
		h.PAXRecords[given+r[0]] = r[1]
	}
	h.Name, h.Size = "GNUSparseFile.0/"+asciiBase(h.Name), size
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(h); err != nil {
		return nil, err
	}
	rest := b.Bytes()
	for _, r := range records {
		i := bytes.Index(rest, []byte(given+r[0]+"="))
		if i < 0 {
			return nil, errors.New("archive/tar left out a record")
		}
		copy(rest[i:], real)
		rest = rest[i+len(given+r[0]+"="+r[1]):]
	}
	return b.Bytes(), nil
}

func isNoData(err error) bool { return errors.Is(err, content.ErrNoData) }

// pad is the number of bytes that fill up the last block of n bytes.
func pad(n int64) int { return int(-n & (block - 1)) }

// asciiBase is a name for programs that do not read extended headers.
func asciiBase(name string) string {
	base := []byte(path.Base(name))
	for i, c := range base {
		if c < ' ' || c >= 0x7f {
			base[i] = '_'
		}
	}
	const room = 100 - len("GNUSparseFile.0/")
	return string(base[:min(len(base), room)])
}
