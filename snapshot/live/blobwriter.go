package live

import (
	"io"

	"github.com/amberfs/amberfs/snapshot/journal"
)

// Blobs writes to the journal, as blobs, what a record that is to come refers to. Until
// Done it stays there, and from then on as long as recovery begins before the record.
type Blobs struct {
	Spans []Span
	to    *blobs
	unpin []func()
}

// Blobs returns a writer of blobs.
func (f *Forest) Blobs() *Blobs { return &Blobs{to: &f.blobs} }

// Write implements io.Writer.
func (b *Blobs) Write(p []byte) (int, error) {
	pos, unpin, err := b.to.write(p, false)
	if err != nil {
		return 0, err
	}
	b.Spans, b.unpin = append(b.Spans, Span{pos, len(p)}), append(b.unpin, unpin)
	return len(p), nil
}

// Done is called when the record is written, or never will be.
func (b *Blobs) Done() {
	for _, unpin := range b.unpin {
		unpin()
	}
}

// ReadBlobs reads what Blobs wrote.
func ReadBlobs(log *journal.Journal, spans []Span) io.Reader {
	parts := make([]io.Reader, len(spans))
	for i, s := range spans {
		parts[i] = io.NewSectionReader(blobAt{log, s.Pos}, 0, int64(s.Len))
	}
	return io.MultiReader(parts...)
}

// A blobAt reads the blob at a position of the journal.
type blobAt struct {
	log *journal.Journal
	pos int64
}

// ReadAt implements io.ReaderAt.
func (b blobAt) ReadAt(p []byte, off int64) (int, error) {
	if err := b.log.ReadAt(p, b.pos+off, b.pos); err != nil {
		return 0, err
	}
	return len(p), nil
}
