package hostdir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/amberfs/amberfs/stream"
)

// While the sink stores one file, the reader continues to read the directory, and several goroutines read small
// files ahead. The sink gets the entries in order.
const (
	maxAhead   = 64        // entries that wait for the sink
	maxReaders = 4         // files that are read at a time
	smallSize  = 256 << 10 // bytes up to which a file is read ahead
)

// A queuedEntry is an entry that waits for the sink.
type queuedEntry struct {
	stream.Entry
	file  *sourceFile   // closed after the sink has read it
	ready chan struct{} // closed when Data can be read; nil if Data can be read at once
}

// delivery passes entries to the sink.
type delivery struct {
	queue   chan *queuedEntry
	readers chan struct{}         // a semaphore of maxReaders
	err     atomic.Pointer[error] // the first error of the sink
	ended   chan struct{}         // closed when the sink has all entries
}

func (d *dirReader) startDelivery() {
	d.delivery = &delivery{queue: make(chan *queuedEntry, maxAhead), readers: make(chan struct{}, maxReaders), ended: make(chan struct{})}
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

// endDelivery waits until the sink has all entries, and returns the first error of the sink.
func (d *dirReader) endDelivery() error {
	close(d.queue)
	<-d.ended
	return d.sinkError()
}

func (d *dirReader) sinkError() error {
	if err := d.err.Load(); err != nil {
		return *err
	}
	return nil
}

// add queues an entry. If the sink has failed, it returns the error of the sink.
func (d *dirReader) add(e stream.Entry) error { return d.addFile(e, nil) }

// addFile does as add for an entry whose data comes from a file. The file is closed after the sink has read it.
func (d *dirReader) addFile(e stream.Entry, f *sourceFile) error {
	a := &queuedEntry{Entry: e, file: f}

	if f != nil && e.DataSize() > smallSize {
		a.File = f
	} else if f != nil {
		a.ready = make(chan struct{})
		d.readers <- struct{}{}
		go func() {
			defer func() { <-d.readers; close(a.ready) }()

			b := make([]byte, e.DataSize())
			n, err := io.ReadFull(e.Data, b)
			if a.Data = bytes.NewReader(b[:n]); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				a.Data = io.MultiReader(a.Data, errorReader{err})
			}
		}()
	}

	d.queue <- a
	return d.sinkError()
}

// An errorReader returns its error instead of the rest of a file that cannot be read.
type errorReader struct{ err error }

func (f errorReader) Read([]byte) (int, error) { return 0, f.err }
