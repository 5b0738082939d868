// Package cache keeps blocks of remote objects in a directory that the daemons of
// one user share.
//
//	DIR/ab/OBJECT.BLOCK   1 MiB of an object, shorter at its end
//
// Objects are immutable and named by their hash, so a block never changes and belongs to
// every remote that has the object. Blocks of an encrypted remote are ciphertext.
//
// Nothing here is synced, and a block is not checked: a power cut may leave one of
// zeros, and another process may have written to it. The reader checks every record
// against its hash, and calls Drop for what does not hold.
//
// The directory may be removed at any time. It is made again when a block is stored,
// and what cannot be stored is kept in memory for a short time.
package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/backend"
)

const (
	// BlockSize is the unit of the cache in bytes.
	BlockSize = 1 << 20
	// maxRun is how many blocks one request fetches at most.
	maxRun = 8
	// touchAfter is how old the mark of a block's last use may be.
	touchAfter = time.Hour
	// DefaultSize is the usual bound of a cache, in bytes.
	DefaultSize = 10 << 30
)

// A Cache is safe for concurrent use, also by several processes.
type Cache struct {
	dir     string
	max     int64
	written atomic.Int64 // bytes since the last look at the size

	mu       sync.Mutex
	flight   map[string]chan struct{} // blocks that are being fetched, by their files
	unstored []unstored               // the last blocks that could not be stored
}

// An unstored block is one that the disk does not take, for the reader that waits for it.
type unstored struct {
	file string
	data []byte
}

const maxUnstored = 16

type Fetch func(ctx context.Context, off, n int64) ([]byte, error)

// New returns the cache in dir, for this user alone. It takes up to about size bytes.
// The directory is made when the first block is stored.
func New(dir string, size int64) *Cache {
	return &Cache{dir: dir, max: max(size, 4*BlockSize), flight: map[string]chan struct{}{}}
}

func (c *Cache) in(fn func(b *vfs.Beneath) error) error {
	b, err := vfs.OpenBeneath(c.dir)
	if err != nil {
		return err
	}
	defer b.Close()
	return fn(b)
}

func (c *Cache) path(name string) string { return filepath.Join(c.dir, name) }

func blockFile(o backend.Object, block int64) string {
	return o.Name[:2] + "/" + o.Name + "." + strconv.FormatInt(block, 10)
}

func blockLen(o backend.Object, block int64) int64 {
	return max(min(BlockSize, o.Size-block*BlockSize), 0)
}

// ReadAt returns n bytes at offset off of an object, fewer at its end. It fetches missing blocks
// and up to ahead bytes more. Without fetch, a missing block is an error.
func (c *Cache) ReadAt(ctx context.Context, o backend.Object, off, n, ahead int64, fetch Fetch) ([]byte, error) {
	end := min(off+n, o.Size)
	if off >= end {
		return nil, nil
	}
	out := make([]byte, end-off)
	for at := off; at < end; {
		block := at / BlockSize
		within := at - block*BlockSize
		part := out[at-off:]
		part = part[:min(int64(len(part)), blockLen(o, block)-within)]
		if !c.load(o, block, within, part) {
			if fetch == nil {
				return nil, errors.New("the block is not in the cache")
			}
			wanted := (end+ahead-1)/BlockSize - block + 1
			b, err := c.fetch(ctx, o, block, min(wanted, maxRun), fetch)
			if err != nil {
				return nil, err
			}
			copy(part, b[within:])
		}
		at += int64(len(part))
	}
	return out, nil
}

func (c *Cache) Has(o backend.Object, off, n int64) bool {
	for block := off / BlockSize; block*BlockSize < min(off+n, o.Size); block++ {
		err := c.in(func(b *vfs.Beneath) error {
			i, err := b.Stat(c.path(blockFile(o, block)))
			if err == nil && i.Size != blockLen(o, block) {
				err = errTorn
			}
			return err
		})
		if err != nil {
			return false
		}
	}
	return true
}

var errTorn = errors.New("the block is torn")

// load fills p with the bytes at an offset of a block, if it is there.
func (c *Cache) load(o backend.Object, block, off int64, p []byte) bool {
	name := blockFile(o, block)
	err := c.in(func(b *vfs.Beneath) error {
		f, err := b.File(c.path(name), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		fi, err := f.Stat()
		if err != nil || fi.Size() != blockLen(o, block) {
			return errTorn
		}
		if _, err := f.ReadAt(p, off); err != nil {
			return err
		}
		if now := time.Now(); now.Sub(fi.ModTime()) > touchAfter {
			tv := unix.NsecToTimeval(now.UnixNano())
			_ = unix.Futimes(int(f.Fd()), []unix.Timeval{tv, tv})
		}
		return nil
	})
	if err == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.unstored {
		if u.file == name {
			copy(p, u.data[off:])
			return true
		}
	}
	return false
}

// fetch returns a block that is not there, fetched together with up to run-1 behind
// it. Of several readers of a block at once, one asks the remote.
func (c *Cache) fetch(ctx context.Context, o backend.Object, block, run int64, fetch Fetch) ([]byte, error) {
	for {
		run, done := c.claim(o, block, run)
		if done != nil {
			select {
			case <-done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		// Another may have fetched it before the claim as well. If not, it got no answer, or
		// gave up.
		b := make([]byte, blockLen(o, block))
		cached := c.load(o, block, 0, b)
		if done == nil {
			var err error
			if !cached {
				b, err = c.fetchRun(ctx, o, block, run, fetch)
			}
			c.release(o, block, run)
			return b, err
		}
		if cached {
			return b, nil
		}
	}
}

// claim reserves a block and up to run-1 missing ones behind it for the caller. If the block is
// being fetched, done is closed at the end of that.
func (c *Cache) claim(o backend.Object, block, run int64) (n int64, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done := c.flight[blockFile(o, block)]; done != nil {
		return 0, done
	}
	mine := make(chan struct{})
	for n = 0; n < run; n++ {
		if name := blockFile(o, block+n); n > 0 && (blockLen(o, block+n) == 0 || c.flight[name] != nil || c.Has(o, (block+n)*BlockSize, 1)) {
			break
		} else {
			c.flight[name] = mine
		}
	}
	return n, nil
}

func (c *Cache) release(o backend.Object, block, run int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.flight[blockFile(o, block)])
	for n := range run {
		delete(c.flight, blockFile(o, block+n))
	}
}

func (c *Cache) fetchRun(ctx context.Context, o backend.Object, block, run int64, fetch Fetch) ([]byte, error) {
	off := block * BlockSize
	want := min(run*BlockSize, o.Size-off)
	data, err := fetch(ctx, off, want)
	if err != nil {
		return nil, err
	}
	if int64(len(data)) != want {
		return nil, errs.New(errs.Damaged, "object %s ends at byte %d of %d on the remote", o.Name, off+int64(len(data)), o.Size)
	}
	c.Put(o, block, data)
	return data[:blockLen(o, block)], nil
}

// Put stores the blocks of an object from one on.
func (c *Cache) Put(o backend.Object, block int64, data []byte) {
	for part := range slices.Chunk(data, BlockSize) {
		c.store(o, block, part)
		block++
	}
}

// store writes a block. On a full or broken disk it stays in memory for a short time.
func (c *Cache) store(o backend.Object, block int64, data []byte) {
	name := blockFile(o, block)
	if err := c.write(name, data); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unstored = append(c.unstored, unstored{name, slices.Clone(data)})
		if n := len(c.unstored) - maxUnstored; n > 0 {
			c.unstored = slices.Delete(c.unstored, 0, n)
		}
		return
	}
	if c.written.Add(int64(len(data))) > c.max/16 {
		c.written.Store(0)
		c.evict()
	}
}

func (c *Cache) write(name string, data []byte) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	return c.in(func(b *vfs.Beneath) error { return b.Put(c.path(name), data, 0o600, false, b.Rename) })
}

// Drop forgets the blocks with n bytes at offset off: they are not what they should be.
func (c *Cache) Drop(o backend.Object, off, n int64) {
	for block := off / BlockSize; block*BlockSize < off+n; block++ {
		_ = c.in(func(b *vfs.Beneath) error { return b.Remove(c.path(blockFile(o, block))) })
		c.mu.Lock()
		c.unstored = slices.DeleteFunc(c.unstored, func(u unstored) bool { return u.file == blockFile(o, block) })
		c.mu.Unlock()
	}
}

// staleTemporary is the age from which on a temporary file is deleted.
const staleTemporary = time.Hour

// evict removes what was used least recently until a tenth of the cache is free.
func (c *Cache) evict() {
	blocks, total := c.blocks()
	if total <= c.max {
		return
	}
	slices.SortFunc(blocks, func(a, b vfs.Info) int { return a.Modified.Compare(b.Modified) })
	for _, b := range blocks {
		if total <= c.max-c.max/10 {
			return
		}
		if c.in(func(d *vfs.Beneath) error { return d.Remove(b.Name) }) == nil {
			total -= b.Size
		}
	}
}

// blocks returns all blocks, with their paths as names.
func (c *Cache) blocks() (out []vfs.Info, total int64) {
	_ = c.in(func(b *vfs.Beneath) error {
		dirs, err := b.ReadDir(c.dir)
		if err != nil {
			return err
		}
		for _, d := range dirs {
			if !d.Dir {
				continue
			}
			files, err := b.ReadDir(c.path(d.Name))
			if err != nil {
				continue // removed meanwhile
			}
			for _, f := range files {
				temporary := strings.HasPrefix(f.Name, ".tmp-")
				f.Name = filepath.Join(c.dir, d.Name, f.Name)
				if !temporary {
					out = append(out, f)
					total += f.Size
				} else if time.Since(f.Modified) > staleTemporary {
					_ = b.Remove(f.Name)
				}
			}
		}
		return nil
	})
	return out, total
}
