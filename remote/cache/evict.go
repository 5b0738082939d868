package cache

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
)

// staleTemporary is when a temporary file belongs to nobody any more.
const staleTemporary = time.Hour

type cached struct {
	name string
	size int64
	used time.Time
}

// evict removes what was used least recently until a tenth of the cache is free.
// If another process is at it, that is enough.
func (c *Cache) evict() {
	unlock, err := c.lock("lock")
	if err != nil {
		return
	}
	defer unlock()
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
			if !d.Dir || d.Name == "locks" {
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
