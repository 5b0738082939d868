package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// shorter says in words that a file ended too early.
func shorter(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it became shorter while it was read")
	}
	return err
}

// chunk stores the contents of a file and puts it into the tree.
func (b *Builder) chunk(p string, n *tree.Inode, size int64, r io.Reader) error {
	if size > 0 {
		base, err := content.FromReader(b.ctx, b.sealer, io.LimitReader(r, size))
		if err != nil {
			return fmt.Errorf("storing %s: %w", p, err)
		}
		if base.Size != size {
			return fmt.Errorf("reading %s: %w", p, shorter(io.ErrUnexpectedEOF))
		}
		n.Content = content.Of(base)
	}
	return b.put(n)
}

// hardlink gives a file that came before another name.
func (b *Builder) hardlink(p, old string) error {
	if err := b.wait(); err != nil { // a worker may still have the inode
		return err
	}
	n, err := b.file(old)
	if err != nil || p == old {
		return err
	}
	if err := b.enter(p, n); err != nil {
		return err
	}
	n.Nlink++
	return nil
}

// file returns a file that came before, to be changed.
func (b *Builder) file(p string) (*tree.Inode, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.state.Resolve(b.src, p)
	if err != nil || n.IsDir() {
		return nil, fmt.Errorf("%w: a hard link to %q, which is not an earlier file of the archive", gitbridge.ErrHostile, p)
	}
	return b.state.Own(b.src, b.epoch, n.Ino)
}

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
