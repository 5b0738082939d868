package cache

import (
	"context"
	"errors"
	"io/fs"
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
	// BlockSize is the number of bytes of a block, except the last one of an object.
	BlockSize = 1 << 20
	// maxRunBlocks is the largest number of blocks of one request.
	maxRunBlocks = 8
	// touchAge is the age of a block at which a read sets its time of modification to now. By these times, evict
	// finds the blocks that were not used for the longest time.
	touchAge = time.Hour
	// DefaultSize is the usual size of a cache in bytes.
	DefaultSize = 10 << 30
)

// A Cache is a directory with blocks. It is safe for concurrent use, also by several processes.
type Cache struct {
	dir          string
	maxBytes     int64        // bytes above which blocks are removed
	writtenBytes atomic.Int64 // bytes written since the last evict

	mu             sync.Mutex
	fetches        map[string]chan struct{} // the running fetch of each block, by blockFile; closed when the fetch ends
	unstoredBlocks []unstoredBlock          // the last maxUnstoredBlocks blocks that could not be stored
}

// An unstoredBlock is a block that could not be written to the disk. It is kept in memory for the readers that wait
// for it.
type unstoredBlock struct {
	file string
	data []byte
}

const maxUnstoredBlocks = 16

// A FetchFunc reads n bytes of an object from the remote, from offset off on.
type FetchFunc func(ctx context.Context, off, n int64) ([]byte, error)

// New returns the cache in dir. Its size is about size bytes at most. When the first block is stored, the directory
// is created, for this user only.
func New(dir string, size int64) *Cache {
	return &Cache{dir: dir, maxBytes: max(size, 4*BlockSize), fetches: map[string]chan struct{}{}}
}

// withDir calls fn with the open directory.
func (c *Cache) withDir(fn func(b *vfs.Root) error) error {
	b, err := vfs.OpenRoot(c.dir)
	if err != nil {
		return err
	}
	defer b.Close()
	return fn(b)
}

func (c *Cache) path(name string) string { return filepath.Join(c.dir, name) }

// blockFile returns the path of a block in the directory.
func blockFile(o backend.Object, block int64) string {
	return o.Name[:2] + "/" + o.Name + "." + strconv.FormatInt(block, 10)
}

// blockLen returns the number of bytes of a block, 0 behind the end of the object.
func blockLen(o backend.Object, block int64) int64 {
	return max(min(BlockSize, o.Size-block*BlockSize), 0)
}

// ReadAt returns n bytes of an object from offset off on, fewer at its end. It fetches missing blocks. With them it
// fetches up to aheadBytes bytes that follow. If fetch is nil, a missing block is an error.
func (c *Cache) ReadAt(ctx context.Context, o backend.Object, off, n, aheadBytes int64, fetch FetchFunc) ([]byte, error) {
	end := min(off+n, o.Size)
	if off >= end {
		return nil, nil
	}

	out := make([]byte, end-off)

	for pos := off; pos < end; {
		block := pos / BlockSize
		blockOff := pos - block*BlockSize
		part := out[pos-off:]
		part = part[:min(int64(len(part)), blockLen(o, block)-blockOff)]
		if !c.readBlock(o, block, blockOff, part) {
			if fetch == nil {
				return nil, errors.New("the block is not in the cache")
			}
			// One request fetches this block and the following ones up to the end of the read-ahead.
			wanted := (end+aheadBytes-1)/BlockSize - block + 1
			b, err := c.fetchBlock(ctx, o, block, min(wanted, maxRunBlocks), fetch)
			if err != nil {
				return nil, err
			}
			copy(part, b[blockOff:])
		}

		pos += int64(len(part))
	}

	return out, nil
}

// Has reports whether the directory has all blocks with n bytes from offset off on.
func (c *Cache) Has(o backend.Object, off, n int64) bool {
	for block := off / BlockSize; block*BlockSize < min(off+n, o.Size); block++ {
		err := c.withDir(func(b *vfs.Root) error {
			i, err := b.Stat(c.path(blockFile(o, block)))
			if err == nil && i.Size != blockLen(o, block) {
				err = errTornBlock
			}

			return err
		})
		if err != nil {
			return false
		}
	}
	return true
}

var errTornBlock = errors.New("the block is torn")

// readBlock fills p with the bytes of a block from off on. It returns false if the cache does not have the block.
func (c *Cache) readBlock(o backend.Object, block, off int64, p []byte) bool {
	name := blockFile(o, block)
	err := c.withDir(func(b *vfs.Root) error {
		f, err := b.OpenOSFile(c.path(name), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()

		fi, err := f.Stat()
		if err != nil || fi.Size() != blockLen(o, block) {
			return errTornBlock
		}
		if _, err := f.ReadAt(p, off); err != nil {
			return err
		}

		if now := time.Now(); now.Sub(fi.ModTime()) > touchAge {
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

	for _, u := range c.unstoredBlocks {
		if u.file == name {
			copy(p, u.data[off:])
			return true
		}
	}

	return false
}

// fetchBlock returns a block that the cache lacks. It fetches up to blockCount blocks: this block and the blocks
// behind it. If several goroutines need a block at once, one of them makes the request and the others wait.
func (c *Cache) fetchBlock(ctx context.Context, o backend.Object, block, blockCount int64, fetch FetchFunc) ([]byte, error) {
	for {
		blockCount, done := c.claimRun(o, block, blockCount)
		if done != nil {
			select {
			case <-done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}

		// The cache may have the block now: the goroutine for which fetchBlock waited has stored it, or another
		// goroutine stored it before claimRun was called.
		b := make([]byte, blockLen(o, block))
		cached := c.readBlock(o, block, 0, b)
		if done != nil {
			if cached {
				return b, nil
			}
			continue
		}

		var err error
		if !cached {
			b, err = c.fetchRun(ctx, o, block, blockCount, fetch)
		}

		c.releaseRun(o, block, blockCount)

		return b, err
	}
}

// claimRun reserves up to blockCount missing blocks for the caller to fetch: a block, and the blocks behind it. n is
// the number of reserved blocks. If another goroutine is fetching the block, claimRun reserves nothing and returns
// the channel done, which is closed when that fetch ends.
func (c *Cache) claimRun(o backend.Object, block, blockCount int64) (n int64, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if done := c.fetches[blockFile(o, block)]; done != nil {
		return 0, done
	}

	claimed := make(chan struct{})
	for n = 0; n < blockCount; n++ {
		name := blockFile(o, block+n)
		if n > 0 && (blockLen(o, block+n) == 0 || c.fetches[name] != nil || c.Has(o, (block+n)*BlockSize, 1)) {
			break
		}
		c.fetches[name] = claimed
	}

	return n, nil
}

// releaseRun ends the reservation of blockCount blocks, from the block number block on.
func (c *Cache) releaseRun(o backend.Object, block, blockCount int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.fetches[blockFile(o, block)])
	for n := range blockCount {
		delete(c.fetches, blockFile(o, block+n))
	}
}

// fetchRun fetches and stores blockCount blocks, and returns the first one.
func (c *Cache) fetchRun(ctx context.Context, o backend.Object, block, blockCount int64, fetch FetchFunc) ([]byte, error) {
	off := block * BlockSize
	want := min(blockCount*BlockSize, o.Size-off)
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

// Put stores data as blocks of an object, from the block number firstBlock on.
func (c *Cache) Put(o backend.Object, firstBlock int64, data []byte) {
	for part := range slices.Chunk(data, BlockSize) {
		c.storeBlock(o, firstBlock, part)
		firstBlock++
	}
}

// storeBlock writes a block. If that fails, it adds the block to unstoredBlocks.
func (c *Cache) storeBlock(o backend.Object, block int64, data []byte) {
	name := blockFile(o, block)
	if err := c.writeFile(name, data); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()

		c.unstoredBlocks = append(c.unstoredBlocks, unstoredBlock{name, slices.Clone(data)})
		if n := len(c.unstoredBlocks) - maxUnstoredBlocks; n > 0 {
			c.unstoredBlocks = slices.Delete(c.unstoredBlocks, 0, n)
		}

		return
	}

	if c.writtenBytes.Add(int64(len(data))) > c.maxBytes/16 {
		c.writtenBytes.Store(0)
		c.evict()
	}
}

func (c *Cache) writeFile(name string, data []byte) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	return c.withDir(func(b *vfs.Root) error { return b.WriteThenRename(c.path(name), data, 0o600, false, b.Rename) })
}

// Drop removes the blocks with n bytes from offset off on, because they are damaged.
func (c *Cache) Drop(o backend.Object, off, n int64) {
	for block := off / BlockSize; block*BlockSize < off+n; block++ {
		_ = c.withDir(func(b *vfs.Root) error { return b.Remove(c.path(blockFile(o, block))) })
		c.mu.Lock()
		c.unstoredBlocks = slices.DeleteFunc(c.unstoredBlocks, func(u unstoredBlock) bool { return u.file == blockFile(o, block) })
		c.mu.Unlock()
	}
}

// Erase overwrites and removes all blocks. Programs that read from a remote fetch their blocks again.
func (c *Cache) Erase() error {
	c.mu.Lock()
	c.unstoredBlocks = nil
	c.mu.Unlock()

	blocks, _ := c.cleanAndListBlocks()

	return c.withDir(func(d *vfs.Root) error {
		for _, b := range blocks {
			// The block may be missing, because another process has removed it. That is no error.
			if err := vfs.Erase(d, b.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// staleTempAge is the age at which a temporary file is deleted. The writer of such an old file was killed.
const staleTempAge = time.Hour

// evict removes the blocks that were not used for the longest time until a tenth of the cache is free. It
// does nothing while the cache is not over its size.
func (c *Cache) evict() {
	blocks, total := c.cleanAndListBlocks()
	if total <= c.maxBytes {
		return
	}

	slices.SortStableFunc(blocks, func(a, b vfs.Info) int { return a.Modified.Compare(b.Modified) })

	for _, b := range blocks {
		if total <= c.maxBytes-c.maxBytes/10 {
			return
		}
		if c.withDir(func(d *vfs.Root) error { return d.Remove(b.Name) }) == nil {
			total -= b.Size
		}
	}
}

// isBlock reports whether a file in a directory has the name of a block. The user may have put other files
// there, which stay.
func isBlock(dir, name string) bool {
	dot := strings.LastIndexByte(name, '.')
	_, err := strconv.ParseUint(name[dot+1:], 10, 63)
	return dot > 2 && err == nil && name[:2] == dir
}

// cleanAndListBlocks deletes stale temporary files. It returns all blocks, with their paths as names, and the sum of
// their sizes.
func (c *Cache) cleanAndListBlocks() (out []vfs.Info, total int64) {
	_ = c.withDir(func(b *vfs.Root) error {
		dirs, err := b.ReadDir(c.dir)
		if err != nil {
			return err
		}

		for _, d := range dirs {
			if !d.IsDir {
				continue
			}

			files, err := b.ReadDir(c.path(d.Name))
			if err != nil {
				continue // another process has removed the file
			}

			for _, f := range files {
				temporary := strings.HasPrefix(f.Name, ".tmp-")
				f.Name = filepath.Join(c.dir, d.Name, f.Name)
				if isBlock(d.Name, filepath.Base(f.Name)) {
					out = append(out, f)
					total += f.Size
				} else if temporary && time.Since(f.Modified) > staleTempAge {
					_ = b.Remove(f.Name)
				}
			}
		}

		return nil
	})
	return out, total
}
