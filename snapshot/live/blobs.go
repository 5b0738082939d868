package live

import (
	"math"
	"sync"

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
