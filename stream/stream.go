package stream

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Writer writes entries with their data, for Read in another process.
type Writer struct {
	// SendFile, if set, sends a file over the connection to the receiver, before the next bytes of w. It returns
	// false if the file must be sent as bytes.
	SendFile func(fd int) bool

	w   *bufio.Writer
	enc *gob.Encoder
	buf []byte
}

// NewWriter returns a Writer. The caller closes it.
func NewWriter(w io.Writer) *Writer {
	b := bufio.NewWriterSize(w, 256<<10)
	return &Writer{w: b, enc: gob.NewEncoder(b), buf: make([]byte, 256<<10)}
}

// Add writes an entry. The method is a Sink.
func (s *Writer) Add(e Entry) error {
	data, file := e.Data, e.File
	e.Data, e.File = nil, nil
	if file != nil && s.SendFile != nil && s.SendFile(int(file.Fd())) {
		data, e.Sent = nil, true
		e.Mode &^= unix.S_IFMT // so that a receiver that does not know Sent refuses the entry
	}
	if err := s.enc.Encode(e); err != nil || data == nil {
		return err
	}

	n, err := io.CopyBuffer(struct{ io.Writer }{s.w}, io.LimitReader(data, e.DataSize()), s.buf)
	if err == nil && n != e.DataSize() {
		err = io.ErrUnexpectedEOF
	}

	return err
}

// Close writes the end of the stream. Without it, Read fails, because the stream is not complete.
func (s *Writer) Close() error {
	return errors.Join(s.enc.Encode(Entry{}), s.w.Flush())
}

// Read reads the entries that a Writer wrote, and passes them to the sink.
func Read(ctx context.Context, r io.Reader, sink Sink, o Options) error {
	in, c := bufio.NewReaderSize(WithContext(ctx, r), 256<<10), NewChecker(sink, o)
	dec := gob.NewDecoder(in)

	for {
		var e Entry
		err := dec.Decode(&e)
		if err == nil && e.Path == "" {
			return nil
		}
		if err == nil {
			e.Path, err = CleanPath(e.Path)
		}
		if err == nil && e.Hardlink != "" {
			e.Hardlink, err = CleanPath(e.Hardlink)
		}
		var sent io.Closer
		if err == nil && e.Sent {
			sent, err = o.openReceived(ctx, &e)
		} else if err == nil && e.Mode&unix.S_IFMT == unix.S_IFREG && e.Hardlink == "" {
			e.Data = io.LimitReader(in, e.DataSize())
		}

		if err == nil {
			e.Meta = c.WithOwner(e.Meta)
			err = c.Add(e)
		}

		if sent != nil {
			sent.Close()
		} else if err == nil && e.Data != nil {
			_, err = io.Copy(io.Discard, e.Data)
		}
		if err != nil {
			return fmt.Errorf("reading what was sent: %w", err)
		}
	}
}

// openReceived receives the file of an entry that a Writer sent as an open file, and sets Entry.Data to a reader of
// it. The caller closes the result after it has read Data.
func (o Options) openReceived(ctx context.Context, e *Entry) (io.Closer, error) {
	if o.ReceiveFile == nil {
		return nil, fmt.Errorf("%w: %q is sent as an open file", ErrHostile, e.Path)
	}
	f, err := o.ReceiveFile()
	if err != nil {
		return nil, err
	}

	parts := []io.Reader{io.NewSectionReader(f, 0, e.Size)}
	if e.Sparse {
		parts = nil
	}
	for _, p := range e.Parts {
		parts = append(parts, io.NewSectionReader(f, p.Off, p.N))
	}

	e.Mode = e.Mode&^unix.S_IFMT | unix.S_IFREG
	e.Data = WithContext(ctx, io.MultiReader(parts...))

	return f, nil
}

const (
	// The largest numbers of bytes and of files that one call of Prefetch fetches.
	maxPrefetchBytes = 16 << 20
	maxPrefetchFiles = 256
)

// Prefetch fetches the objects of the files that the caller is about to read, in one call of fetch. The caller reads
// n files in the order of their numbers, beginning with file number i. The function file returns the file with a
// number, or nil for a file whose contents are not read. The result next is the number of the file at which the
// caller calls Prefetch again. If fetch is nil, Prefetch does nothing and returns n.
func Prefetch(fetch func([]cas.Hash) error, src *tree.Source, i, n int, file func(i int) *tree.Inode) (next int, err error) {
	if fetch == nil {
		return n, nil
	}
	var hashes []cas.Hash
	seen := make(map[cas.Hash]bool)
	size := int64(0)
	for next = i; next < min(n, i+maxPrefetchFiles) && size < maxPrefetchBytes; next++ {
		if f := file(next); f != nil && f.IsRegular() && f.Size() < maxPrefetchBytes {
			size += f.Size()

			if err := f.Content.EachObject(src.Files, func(h cas.Hash, isList bool) (bool, error) {
				if !isList && !seen[h] {
					seen[h] = true
					hashes = append(hashes, h)
				}
				return isList, nil
			}); err != nil {
				return next, err
			}
		}
	}
	if len(hashes) == 0 {
		return next, nil
	}

	return next, fetch(hashes)
}
