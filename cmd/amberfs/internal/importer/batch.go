package importer

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/amberfs/amberfs/cas/guard"
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
	b.pool.do(func() error {
		err := b.chunkAll(t.files)
		clear(t.files)
		t.files, t.data = t.files[:0], t.data[:0]
		if cap(t.data) == batchBytes {
			batches.Put(t)
		}
		return err
	})
}

// settle waits until everything that came is in the tree.
func (b *Builder) settle() error {
	b.send()
	return b.pool.wait()
}

func (b *Builder) chunkAll(files []smallFile) error {
	nodes := make([]*tree.Inode, len(files))
	for i, f := range files {
		nodes[i] = f.node
		if len(f.data) == 0 {
			continue
		}
		base, err := tree.ChunkBytes(b.ctx, b.sealer, f.data)
		if err != nil {
			return fmt.Errorf("storing %s: %w", f.path, err)
		}
		f.node.Content = tree.ContentOf(base)
	}
	return b.put(nodes...)
}

// pool is goroutines that work until it is closed. Its methods but for the work
// itself are called by one goroutine.
type pool struct {
	jobs   chan func() error
	under  sync.WaitGroup // jobs under way
	once   sync.Once
	err    error // the first; read it after a wait
	cancel context.CancelCauseFunc
}

func newPool(n int, cancel context.CancelCauseFunc) *pool {
	p := &pool{jobs: make(chan func() error), cancel: cancel}
	for range n {
		go func() {
			for job := range p.jobs {
				if err := guard.Do(job); err != nil {
					p.once.Do(func() { p.err = err })
					p.cancel(err)
				}
				p.under.Done()
			}
		}()
	}
	return p
}

func (p *pool) do(job func() error) {
	p.under.Add(1)
	p.jobs <- job
}

// wait waits for all jobs and returns the first error of any so far.
func (p *pool) wait() error {
	p.under.Wait()
	return p.err
}

func (p *pool) close() {
	p.under.Wait()
	close(p.jobs)
}
