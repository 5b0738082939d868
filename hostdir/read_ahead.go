package hostdir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/amberfs/amberfs/stream"
)

// While the sink stores one file, the reader goes on through the directory, and small files
// are read ahead by several goroutines. The sink gets everything in order.
const (
	maxAhead   = 64        // entries that wait for the sink
	maxReaders = 4         // files that are read at a time
	smallSize  = 256 << 10 // bytes up to which a file is read ahead
)

// An ahead is an entry on its way to the sink.
type ahead struct {
	stream.Entry
	file  *os.File      // closed after the sink has read it
	ready chan struct{} // closed when Data can be read; nil: at once
}

// delivery passes entries to the sink.
type delivery struct {
	queue   chan *ahead
	readers chan struct{} // a semaphore of maxReaders
	err     atomic.Pointer[error]
	ended   chan struct{}
}

func (d *dirReader) deliver() {
	d.delivery = &delivery{queue: make(chan *ahead, maxAhead), readers: make(chan struct{}, maxReaders), ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		for a := range d.queue {
			if a.ready != nil {
				<-a.ready
			}

			if d.err.Load() == nil {
				if err := d.Checker.Add(a.Entry); errors.Is(err, io.ErrUnexpectedEOF) {
					err = fmt.Errorf("%q became shorter while it was read: %w", a.Path, err)
					d.err.Store(&err)
				} else if err != nil {
					d.err.Store(&err)
				}
			}

			if a.file != nil {
				a.file.Close()
			}
		}
	}()
}

// delivered returns when the sink has everything, and its first error.
func (d *dirReader) delivered() error {
	close(d.queue)
	<-d.ended
	return d.failed()
}

func (d *dirReader) failed() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// add queues an entry. It fails if the sink has failed by now.
func (d *dirReader) add(e stream.Entry) error { return d.addFile(e, nil) }

// addFile is add for an entry whose data comes from a file, which it closes.
func (d *dirReader) addFile(e stream.Entry, f *os.File) error {
	a := &ahead{Entry: e, file: f}

	if f != nil && e.DataSize() <= smallSize {
		a.ready = make(chan struct{})
		d.readers <- struct{}{}
		go func() {
			defer func() { <-d.readers; close(a.ready) }()

			b := make([]byte, e.DataSize())
			n, err := io.ReadFull(e.Data, b)
			if a.Data = bytes.NewReader(b[:n]); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				a.Data = io.MultiReader(a.Data, failing{err})
			}
		}()
	}

	d.queue <- a
	return d.failed()
}

// failing is the end of a file that cannot be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
