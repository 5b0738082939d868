package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/stream"
)

const (
	// A file with at least minSparseHoleBytes bytes in holes is written as its parts with data. A file with fewer
	// bytes in holes is written as an ordinary entry, which every program can read.
	minSparseHoleBytes = 1 << 20
	// maxSparseMapBytes is the largest size, in bytes, of a list of parts that package archive/tar reads.
	maxSparseMapBytes = 1 << 20
)

// setParts sets Sparse, Parts and Data of the entry of a file with holes. It leaves the entry as it is if the file
// has too many parts.
func (t tarWriter) setParts(e *stream.Entry, c *content.Content) {
	var parts []content.DataRange
	var data []io.Reader

	for off := int64(0); off < e.Size; {
		dataStart, err := c.SeekData(t.src.Files, off, content.SeekBlockSize)
		if errors.Is(err, content.ErrNoData) {
			break
		}
		if err == nil {
			off, err = c.SeekHole(t.src.Files, dataStart, content.SeekBlockSize)
		}
		if err != nil || len(parts) > maxSparseMapBytes/4 {
			return // the file is read as a whole later, and that read returns the error
		}

		parts = append(parts, content.DataRange{Off: dataStart, N: off - dataStart})
		data = append(data, io.NewSectionReader(c.Reader(t.src.Files), dataStart, off-dataStart))
	}

	if len(sparseMap(parts, e.Size)) <= maxSparseMapBytes {
		e.Sparse, e.Parts, e.Data = true, parts, stream.WithContext(t.ctx, io.MultiReader(data...))
	}
}

// sparseMap returns the list of parts that precedes their data in GNU's sparse format 1.0, padded to whole
// blocks. GNU tar reads the size of the file from the last part, so an empty part is added at the end of the
// file.
func sparseMap(parts []content.DataRange, size int64) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\n", len(parts)+1)
	for _, p := range parts {
		fmt.Fprintf(&b, "%d\n%d\n", p.Off, p.N)
	}

	fmt.Fprintf(&b, "%d\n0\n", size)
	b.Write(make([]byte, padding(int64(b.Len()))))

	return b.Bytes()
}

// padding returns the number of zeros that fill the last block after n bytes.
func padding(n int64) int64 { return (blockSize - n%blockSize) % blockSize }

// Package archive/tar reads PAX records whose names begin with sparsePrefix, but refuses to write them. So addSparse
// lets the package write records with writablePrefix, and renameRecords renames them.
const sparsePrefix, writablePrefix = "GNU.sparse.", "GNU_sparse."

// addSparse writes the entry of a file with holes: the list of its parts, and their data.
func (t *TarSink) addSparse(h *tar.Header, e stream.Entry) error {
	list := sparseMap(e.Parts, e.Size)
	h.Size = int64(len(list))
	for _, p := range e.Parts {
		h.Size += p.N
	}
	for key, value := range map[string]string{"major": "1", "minor": "0", "name": h.Name, "realsize": strconv.FormatInt(e.Size, 10)} {
		h.PAXRecords[writablePrefix+key] = value
	}

	dir, name := path.Split(h.Name)
	h.Name = path.Join(dir, "GNUSparseFile.0", name) // the name for programs that do not know the format

	var head bytes.Buffer
	if err := tar.NewWriter(&head).WriteHeader(h); err != nil {
		return err
	}
	if err := renameRecords(head.Bytes()); err != nil {
		return err
	}
	if err := t.tar.Flush(); err != nil { // writes the padding of the previous file
		return err
	}

	record := io.MultiReader(&head, bytes.NewReader(list), e.Data, bytes.NewReader(make([]byte, padding(h.Size))))
	want := int64(head.Len()) + h.Size + padding(h.Size)
	n, err := io.CopyBuffer(struct{ io.Writer }{t.w}, record, t.buf)
	if err == nil && n != want {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("copying %q: %w", e.Path, err)
	}

	return nil
}

// renameRecords changes writablePrefix to sparsePrefix in the keys of the records of an extended header. The records
// follow the first block of head, each as "LENGTH KEY=VALUE\n".
func renameRecords(head []byte) error {
	size, err := strconv.ParseInt(strings.Trim(string(head[124:136]), " \x00"), 8, 64)
	if err != nil {
		return fmt.Errorf("the extended header is malformed: %w", err)
	}

	for rest := head[blockSize : blockSize+size]; len(rest) > 0; {
		number, record, _ := bytes.Cut(rest, []byte(" "))
		n, err := strconv.Atoi(string(number))
		if err != nil || n > len(rest) {
			return fmt.Errorf("the extended header is malformed: %w", err)
		}
		if bytes.HasPrefix(record, []byte(writablePrefix)) {
			copy(record, sparsePrefix)
		}

		rest = rest[n:]
	}

	return nil
}
