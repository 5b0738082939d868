package cache

import (
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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
	unlock, err := c.lock("lock", unix.LOCK_EX|unix.LOCK_NB)
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
		if c.root.Remove(b.name) == nil {
			total -= b.size
		}
	}
}

// blocks lists the cache, and removes temporary files that were left behind.
func (c *Cache) blocks() (out []cached, total int64) {
	_ = fs.WalkDir(c.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "lock") {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return nil // removed meanwhile
		}
		if strings.Contains(name, "/.tmp-") {
			if time.Since(fi.ModTime()) > staleTemporary {
				_ = c.root.Remove(name)
			}
			return nil
		}
		out = append(out, cached{name, fi.Size(), fi.ModTime()})
		total += fi.Size()
		return nil
	})
	return out, total
}
