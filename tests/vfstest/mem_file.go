package vfstest

import (
	"io"
	"io/fs"
	"syscall"
)

const (
	memBlock  = 4096
	memSector = 512
)

// A memNode is a file without its name. All of it is guarded by fs.mu.
type memNode struct {
	fs      *Mem
	data    []byte
	durable []byte             // as of the last Sync
	ops     []dataOp           // since then, oldest first
	blocks  map[int64]struct{} // blocks that take space
	gone    bool               // no name refers to it; its space is given back already
}

// A dataOp is one change of a file's bytes.
type dataOp struct {
	off    int64
	bytes  []byte // a write
	size   int64  // a new size, when resize
	punch  int64  // a hole of that many bytes
	resize bool
}

func (n *memNode) allocated() int64 { return int64(len(n.blocks)) * memBlock }

// take accounts for the blocks of [off, off+length), or refuses all of them.
func (n *memNode) take(off, length int64) error {
	if length <= 0 {
		return nil
	}
	first, last := off/memBlock, (off+length-1)/memBlock
	missing := int64(0)
	for b := first; b <= last; b++ {
		if _, ok := n.blocks[b]; !ok {
			missing++
		}
	}
	if n.fs.used+missing*memBlock > n.fs.capacity {
		return syscall.ENOSPC
	}
	for b := first; b <= last; b++ {
		n.blocks[b] = struct{}{}
	}
	if !n.gone {
		n.fs.used += missing * memBlock
	}
	return nil
}

func (n *memNode) give(first, last int64) {
	for b := first; b <= last; b++ {
		if _, ok := n.blocks[b]; ok {
			delete(n.blocks, b)
			if !n.gone {
				n.fs.used -= memBlock
			}
		}
	}
}

func (n *memNode) truncate(size int64) {
	old := int64(len(n.data))
	n.data = resized(n.data, size)
	if size < old {
		n.give((size+memBlock-1)/memBlock, old/memBlock)
	}
	n.ops = append(n.ops, dataOp{size: size, resize: true})
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	if size <= int64(cap(b)) {
		old := len(b)
		b = b[:size]
		clear(b[old:])
		return b
	}
	grown := make([]byte, size, size+size/4)
	copy(grown, b)
	return grown
}

// apply does to b what the operation did to the file.
func (o dataOp) apply(b []byte) []byte {
	switch {
	case o.resize:
		return resized(b, o.size)
	case o.punch > 0:
		clear(b[min(o.off, int64(len(b))):min(o.off+o.punch, int64(len(b)))])
		return b
	}
	if end := o.off + int64(len(o.bytes)); end > int64(len(b)) {
		b = resized(b, end)
	}
	copy(b[o.off:], o.bytes)
	return b
}

type memFile struct {
	node     *memNode
	name     string
	readOnly bool
	closed   bool
}

func (f *memFile) check(op string, write bool) error {
	if f.closed {
		return pathErr(op, f.name, fs.ErrClosed)
	}
	if write && f.readOnly {
		return pathErr(op, f.name, syscall.EBADF)
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.node.fs.mu.Lock()
	defer f.node.fs.mu.Unlock()
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	k := copy(p, f.node.data[off:])
	if k < len(p) {
		return k, io.EOF
	}
	return k, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.node.fs.mu.Lock()
	defer f.node.fs.mu.Unlock()
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if err := f.node.take(off, int64(len(p))); err != nil {
		return 0, pathErr("write", f.name, err)
	}
	op := dataOp{off: off, bytes: append([]byte(nil), p...)}
	f.node.data = op.apply(f.node.data)
	f.node.ops = append(f.node.ops, op)
	return len(p), nil
}

func (f *memFile) Sync() error {
	f.node.fs.mu.Lock()
	defer f.node.fs.mu.Unlock()
	if err := f.check("fdatasync", false); err != nil {
		return err
	}
	for _, o := range f.node.ops {
		f.node.durable = o.apply(f.node.durable)
	}
	f.node.ops = nil
	return nil
}

func (f *memFile) Truncate(size int64) error {
	f.node.fs.mu.Lock()
	defer f.node.fs.mu.Unlock()
	if err := f.check("truncate", true); err != nil {
		return err
	}
	f.node.truncate(size)
	return nil
}

func (f *memFile) Allocate(off, n int64) error {
	f.node.fs.mu.Lock()
	defer f.node.fs.mu.Unlock()
	if err := f.check("fallocate", true); err != nil {
		return err
	}
	if err := f.node.take(off, n); err != nil {
		return pathErr("fallocate", f.name, err)
	}
	if off+n > int64(len(f.node.data)) {
		f.node.truncate(off + n)
	}
	return nil
}

func (f *memFile) Punch(off, n int64) error {
	f.node.fs.mu.Lock()
	defer f.node.fs.mu.Unlock()
	if err := f.check("punch", true); err != nil {
		return err
	}
	if n <= 0 {
		return nil
	}
	op := dataOp{off: off, punch: n}
	f.node.data = op.apply(f.node.data)
	f.node.ops = append(f.node.ops, op)
	f.node.give((off+memBlock-1)/memBlock, (off+n)/memBlock-1)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.node.fs.mu.Lock()
	defer f.node.fs.mu.Unlock()
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *memFile) Close() error {
	f.node.fs.mu.Lock()
	defer f.node.fs.mu.Unlock()
	if err := f.check("close", false); err != nil {
		return err
	}
	f.closed = true
	return nil
}
