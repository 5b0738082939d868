package events

import (
	"log/slog"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// The log of a store on a small disk leaves the disk to files.
func TestSmallDisk(t *testing.T) {
	for _, c := range []struct{ disk, limit int64 }{{32 << 20, minLimitBytes}, {128 << 20, 2 << 20}, {1 << 40, DefaultLimitBytes}} {
		fs := vfstest.NewMem()
		fs.SetCapacity(c.disk)
		must.OK(t, fs.MkdirAll("/store", 0o700))
		l, err := Open("/store/events", Options{FS: fs, Logger: slog.New(slog.DiscardHandler)})
		must.OK(t, err)
		if l.opts.LimitBytes != c.limit || l.opts.SegmentSize > c.limit/4 {
			t.Errorf("on a disk of %d bytes the limit is %d, and that of a file %d", c.disk, l.opts.LimitBytes, l.opts.SegmentSize)
		}
		must.OK(t, l.Close())
	}
}
