package journal

import (
	"errors"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestQuota: under a quota that is used up, what gives space back can be appended, in what is
// left and then in what is kept for it. The disk says that there is room.
func TestQuota(t *testing.T) {
	mem := vfstest.NewMem()
	disk := vfstest.Quota(mem)
	must.OK(t, vfs.WriteSynced(disk, "/reserve", make([]byte, 1<<20)))
	j, err := Open("/journal", Options{FS: disk, SegmentSize: 8 << 20, FreeReserve: func() { _ = disk.Remove("/reserve") }})
	must.OK(t, err)
	defer j.Close()
	mem.SetCapacity(mem.Used() + 20<<20)
	for err == nil {
		_, err = j.Append(1, nil, make([]byte, 64<<10), false)
	}
	if !errors.Is(err, errs.NoSpace) {
		t.Fatal(err)
	}
	mem.SetCapacity(mem.Used())
	urgent := 0
	for range 100 {
		if _, err := j.Append(2, nil, make([]byte, 4000), true); err != nil {
			break
		}
		urgent++
	}
	if urgent < 20 {
		t.Errorf("%d urgent records fit", urgent)
	}
}
