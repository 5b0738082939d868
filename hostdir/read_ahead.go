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
	maxQueuedEntries  = 64        // entries that wait for the sink
	maxReaders        = 4         // files that are read at a time
	maxReadAheadBytes = 256 << 10 // bytes up to which a file is read ahead
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
	readers chan struct{}         // a semaphore: at most maxReaders goroutines read files
	sinkErr atomic.Pointer[error] // the first error of the sink
	ended   chan struct{}         // closed when the sink has all entries
}

func (d *dirReader) startDelivery() {
	d.delivery = &delivery{queue: make(chan *queuedEntry, maxQueuedEntries), readers: make(chan struct{}, maxReaders), ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		for queued := range d.queue {
			if queued.ready != nil {
				<-queued.ready
			}

			if d.sinkErr.Load() == nil {
				if err := d.Checker.Add(queued.Entry); errors.Is(err, io.ErrUnexpectedEOF) {
					err = fmt.Errorf("%q became shorter while it was read: %w", queued.Path, err)
					d.sinkErr.Store(&err)
				} else if err != nil {
					d.sinkErr.Store(&err)
				}
			}

			if queued.file != nil {
				queued.file.Close()
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
	if err := d.sinkErr.Load(); err != nil {
		return *err
	}
	return nil
}

// add queues an entry. If the sink has failed, it returns the error of the sink.
func (d *dirReader) add(e stream.Entry) error { return d.addFile(e, nil) }

// addFile is add for an entry whose data comes from a file. The file is closed after the sink has read it.
func (d *dirReader) addFile(e stream.Entry, f *sourceFile) error {
	queued := &queuedEntry{Entry: e, file: f}

	if f != nil && e.DataSize() > maxReadAheadBytes {
		queued.File = f
	} else if f != nil {
		queued.ready = make(chan struct{})
		d.readers <- struct{}{}
		go func() {
			defer func() { <-d.readers; close(queued.ready) }()

			b := make([]byte, e.DataSize())
			n, err := io.ReadFull(e.Data, b)
			if queued.Data = bytes.NewReader(b[:n]); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				queued.Data = io.MultiReader(queued.Data, errorReader{err})
			}
		}()
	}

	d.queue <- queued
	return d.sinkError()
}

// An errorReader returns an error instead of the part of a file that could not be read.
type errorReader struct{ err error }

func (f errorReader) Read([]byte) (int, error) { return 0, f.err }
