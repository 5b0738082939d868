package live

import (
	"math"
	"sync"

	"github.com/amberfs/amberfs/snapshot/journal"
)

// blobs are the journal positions of bytes that were written before the
// record that refers to them, so that the journal is not dropped in between.
type blobs struct {
	mu   sync.Mutex
	open map[int64]int
}

// blob journals bytes alone. done is called when a record refers to them, or
// none ever will.
func (f *Forest) blob(p []byte) (pos int64, done func(), err error) {
	return f.blobBy(f.log.Append, p)
}

// urgentBlob is blob for what may use the space that is held back on a full disk.
func (f *Forest) urgentBlob(p []byte) (pos int64, done func(), err error) {
	return f.blobBy(f.log.AppendUrgent, p)
}

func (f *Forest) blobBy(write func(t journal.Type, head, data []byte) (int64, error), p []byte) (pos int64, done func(), err error) {
	b := &f.blobs
	b.mu.Lock()
	floor := f.log.End() // the bytes will lie at or after it
	b.open[floor]++
	b.mu.Unlock()
	done = func() {
		b.mu.Lock()
		if b.open[floor]--; b.open[floor] == 0 {
			delete(b.open, floor)
		}
		b.mu.Unlock()
	}
	pos, err = write(recBlob, nil, p)
	if err != nil {
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
