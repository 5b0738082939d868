package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

// store writes a block. On a full or broken disk it stays in memory for a short time.
func (c *Cache) store(o Object, block int64, data []byte) {
	name := o.file(block)
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
	return c.in(func(b *vfs.Beneath) error {
		dir := filepath.Dir(c.path(name))
		if err := b.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		tmp := filepath.Join(dir, ".tmp-"+uuid.NewString())
		f, err := b.File(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err = errors.Join(err, f.Close()); err == nil {
			err = b.Rename(tmp, c.path(name))
		}
		if err != nil {
			_ = b.Remove(tmp)
		}
		return err
	})
}

// Drop forgets the blocks with n bytes at offset off: they are not what they should be.
func (c *Cache) Drop(o Object, off, n int64) {
	for block := off / BlockSize; block*BlockSize < off+n; block++ {
		_ = c.in(func(b *vfs.Beneath) error { return b.Remove(c.path(o.file(block))) })
		c.mu.Lock()
		c.unstored = slices.DeleteFunc(c.unstored, func(u unstored) bool { return u.file == o.file(block) })
		c.mu.Unlock()
	}
}

// lockTick is how often a lock is tried that another process has.
const lockTick = 20 * time.Millisecond

// lockBlock keeps other processes from fetching the same block meanwhile. One that
// waits for a remote may have it for long, so the wait ends when ctx does. Where there
// can be no lock, the block is fetched without it.
func (c *Cache) lockBlock(ctx context.Context, o Object, block int64) (unlock func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(o.file(block)))
	name := fmt.Sprintf("locks/%03x", h.Sum32()&0xfff)
	for {
		unlock, err = c.lock(name)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return func() {}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockTick):
		}
	}
}

// lock takes a lock if nobody has it.
func (c *Cache) lock(name string) (unlock func(), err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	err = c.in(func(b *vfs.Beneath) error {
		if err := b.MkdirAll(filepath.Dir(c.path(name)), 0o700); err != nil {
			return err
		}
		f, err := b.File(c.path(name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return errors.Join(err, f.Close())
		}
		unlock = func() { _ = f.Close() }
		return nil
	})
	return unlock, err
}
