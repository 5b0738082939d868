package importer

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A batch is small files that one worker chunks. Handing over one file at a time
// would wake a worker for each, which takes as long as the work.
type batch struct {
	data  []byte
	files []smallFile
}

const (
	batchBytes = 256 << 10
	batchFiles = 256
)

type smallFile struct {
	path string
	node *tree.Inode
	data []byte // of the batch
}

var batches = sync.Pool{New: func() any { return &batch{data: make([]byte, 0, batchBytes)} }}

// later reads a small file, to be chunked with others.
func (b *Builder) later(p string, n *tree.Inode, size int, r io.Reader) error {
	if t := b.batch; t != nil && (len(t.data)+size > cap(t.data) || len(t.files) == batchFiles) {
		b.send()
	}
	if b.batch == nil {
		b.batch = batches.Get().(*batch)
	}
	t := b.batch
	if size > cap(t.data) {
		t.data = make([]byte, 0, size)
	}
	at := len(t.data)
	data := t.data[at : at+size : at+size]
	if _, err := io.ReadFull(r, data); err != nil {
		return fmt.Errorf("reading %s: %w", p, shorter(err))
	}
	t.data = t.data[:at+size]
	t.files = append(t.files, smallFile{p, n, data})
	return nil
}

// send hands the batch to a worker.
func (b *Builder) send() {
	t := b.batch
	if t == nil {
		return
	}
	b.batch = nil
	b.workers.Go(func() error {
		err := guard.Do(func() error { return b.chunkAll(t.files) })
		if err != nil {
			b.cancel(err)
		}
		clear(t.files)
		t.files, t.data = t.files[:0], t.data[:0]
		if cap(t.data) == batchBytes {
			batches.Put(t)
		}
		return err
	})
}

// wait waits until everything that came is in the tree.
func (b *Builder) wait() error {
	b.send()
	return b.workers.Wait()
}

func (b *Builder) chunkAll(files []smallFile) error {
	nodes := make([]*tree.Inode, len(files))
	for i, f := range files {
		nodes[i] = f.node
		if len(f.data) == 0 {
			continue
		}
		base, err := content.FromReader(b.ctx, b.sealer, bytes.NewReader(f.data))
		if err != nil {
			return fmt.Errorf("storing %s: %w", f.path, err)
		}
		f.node.Content = content.Of(base)
	}
	return b.put(nodes...)
}
