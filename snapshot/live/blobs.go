package live

import (
	"math"
	"sync"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/journal"
)

// blobs are the journal positions of bytes that were written before the
// record that refers to them, so that the journal is not dropped in between.
type blobs struct {
	log  *journal.Journal
	mu   sync.Mutex
	open map[int64]int
}

// write journals bytes alone. done is called when a record refers to them, or none ever
// will. Urgent bytes may use the space that is held back on a full disk.
func (b *blobs) write(p []byte, urgent bool) (pos int64, done func(), err error) {
	b.mu.Lock()
	floor := b.log.End() // the bytes will lie at or after it
	b.open[floor]++
	b.mu.Unlock()
	done = func() {
		b.mu.Lock()
		if b.open[floor]--; b.open[floor] == 0 {
			delete(b.open, floor)
		}
		b.mu.Unlock()
	}
	write := b.log.Append
	if urgent {
		write = b.log.AppendUrgent
	}
	if pos, err = write(recBlob, nil, p); err != nil {
		done()
		return 0, nil, err
	}
	return pos, done, nil
}

func (b *blobs) minPos() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	low := int64(math.MaxInt64)
	for pos := range b.open {
		low = min(low, pos)
	}
	return low
}

// Blobs writes to the journal, as blobs, what a record that is to come refers to. Until
// Done it stays there, and from then on as long as recovery begins before the record.
type Blobs struct {
	Spans  []graft.Span
	to     *blobs
	urgent bool
	unpin  []func()
}

// Write implements io.Writer.
func (b *Blobs) Write(p []byte) (int, error) {
	pos, unpin, err := b.to.write(p, b.urgent)
	if err != nil {
		return 0, err
	}
	b.Spans, b.unpin = append(b.Spans, graft.Span{Pos: pos, Len: len(p)}), append(b.unpin, unpin)
	return len(p), nil
}

// Done is called when the record is written, or never will be.
func (b *Blobs) Done() {
	for _, unpin := range b.unpin {
		unpin()
	}
	b.unpin = nil
}
