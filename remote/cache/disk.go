package cache

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

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

// staleTemporary is when a temporary file belongs to nobody any more.
const staleTemporary = time.Hour

type cached struct {
	name string
	size int64
	used time.Time
}

// evict removes what was used least recently until a tenth of the cache is free.
func (c *Cache) evict() {
	blocks, total := c.blocks()
	if total <= c.max {
		return
	}
	slices.SortFunc(blocks, func(a, b cached) int { return a.used.Compare(b.used) })
	for _, b := range blocks {
		if total <= c.max-c.max/10 {
			return
		}
		if c.in(func(d *vfs.Beneath) error { return d.Remove(b.name) }) == nil {
			total -= b.size
		}
	}
}

// blocks lists the cache, and removes temporary files that were left behind.
func (c *Cache) blocks() (out []cached, total int64) {
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
				name := filepath.Join(c.dir, d.Name, f.Name)
				if !strings.HasPrefix(f.Name, ".tmp-") {
					out = append(out, cached{name, f.Size, f.Modified})
					total += f.Size
				} else if time.Since(f.Modified) > staleTemporary {
					_ = b.Remove(name)
				}
			}
		}
		return nil
	})
	return out, total
}
