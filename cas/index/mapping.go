package index

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

// Badger gives a file its full size without blocks and then writes to it through a
// mapping, on goroutines of its own. On a full disk such a write is a SIGBUS, which
// ends the process, and Badger has no option to allocate the blocks first. Badger maps
// through unix.Mmap, so mapAllocated takes the place of the system call there.
//
// mmapper is laid out as the type of unix.mapper. TestMappedFilesHaveBlocks fails if
// that changes.
type mmapper struct {
	mu     sync.Mutex
	active map[*byte][]byte
	mmap   func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error)
}

//go:linkname mapper golang.org/x/sys/unix.mapper
var mapper *mmapper

var mapFile = mapper.mmap

func init() { mapper.mmap = mapAllocated }

// logsInMemory counts the logs that were mapped without a file, see mapAllocated.
var logsInMemory atomic.Int64

// logRoom is how many bytes a new log leaves of the disk, for the manifest and the journal.
const logRoom = 1 << 20

// largestMapped is more than Badger ever makes a file.
const largestMapped = 128 << 20

// mapAllocated is mmap, but the blocks of a file that is to be written through the mapping
// are allocated first. If the disk is full:
//
//   - A table of Badger's fails with ENOSPC. Badger tries again later.
//   - A new log is mapped without its file: Badger cannot go on without a log. Its
//     content reaches the disk in a table. A batch leaves the mark first, so that after
//     a kill the index is rebuilt.
func mapAllocated(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error) {
	if flags != unix.MAP_SHARED || prot&unix.PROT_WRITE == 0 {
		return mapFile(addr, length, prot, flags, fd, offset)
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	kind := filepath.Ext(name)
	n := int64(length)
	if kind != ".sst" && kind != ".mem" {
		n = int64(os.Getpagesize()) // of the others Badger writes nothing but the header
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	if st.Blocks*512 >= n {
		return mapFile(addr, length, prot, flags, fd, offset)
	}
	if n > largestMapped {
		return 0, unix.EFBIG // it is none of ours, and may be a hole
	}
	err = allocate(fd, n, kind == ".mem")
	switch {
	case err == nil, !errors.Is(err, errs.NoSpace): // some disks cannot allocate
	case st.Blocks > 0:
		return 0, err
	case kind == ".sst":
		_ = os.Remove(name)
		return 0, err
	default:
		_ = unix.Ftruncate(fd, 0) // gives back what was allocated of it
		logsInMemory.Add(1)
		flags, fd = unix.MAP_SHARED|unix.MAP_ANONYMOUS, -1
	}
	return mapFile(addr, length, prot, flags, fd, offset)
}

func allocate(fd int, n int64, spare bool) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err == nil && spare && int64(st.Bavail)*st.Bsize < n+logRoom {
		return errs.Full(unix.ENOSPC)
	}
	for {
		if err := unix.Fallocate(fd, 0, 0, n); err != unix.EINTR {
			return errs.Full(err)
		}
	}
}
