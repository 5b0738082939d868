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
// through unix.Mmap, so mapAllocated replaces the system call there.
//
// An mmapper has the layout of the type of unix.mapper. TestMappedFilesHaveBlocks fails if that type
// changes.
type mmapper struct {
	mu     sync.Mutex
	active map[*byte][]byte
	mmap   func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error)
}

//go:linkname mapper golang.org/x/sys/unix.mapper
var mapper *mmapper

// systemMmap is the mmap that mapAllocated replaces.
var systemMmap = mapper.mmap

func init() { mapper.mmap = mapAllocated }

// logsInMemory is the number of logs that were mapped without a file, see mapAllocated.
var logsInMemory atomic.Int64

// logRoom is the number of bytes that a new log leaves free for the manifest and the journal.
const logRoom = 1 << 20

// maxMappedSize is larger than any file of Badger with these options, so larger files are not
// mapped.
const maxMappedSize = 128 << 20

// mapAllocated calls mmap. If the file will be written through the mapping, it allocates the blocks
// first. If the disk is full:
//
//   - The mapping of a table fails with ENOSPC. Badger tries again later.
//   - A new log is mapped as anonymous memory, because Badger does not work without a log. Its entries
//     are written to disk with the next table. Before a batch writes to such a log, it writes the
//     mark openingMark, so that after a kill the index is rebuilt.
func mapAllocated(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error) {
	if flags != unix.MAP_SHARED || prot&unix.PROT_WRITE == 0 {
		return systemMmap(addr, length, prot, flags, fd, offset)
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}

	kind := filepath.Ext(name)
	n := int64(length)
	if kind != ".sst" && kind != ".mem" {
		n = int64(os.Getpagesize()) // Badger writes only the header of other files
	}

	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	if st.Blocks*512 >= n {
		return systemMmap(addr, length, prot, flags, fd, offset)
	}
	if n > maxMappedSize {
		return 0, unix.EFBIG // Badger does not create files of this size
	}

	err = allocateBlocks(fd, n, kind == ".mem")
	switch {
	case err == nil, !errors.Is(err, errs.NoSpace): // some file systems have no fallocate
	case st.Blocks > 0:
		return 0, err
	case kind == ".sst":
		_ = os.Remove(name)
		return 0, err
	default:
		_ = unix.Ftruncate(fd, 0) // frees the blocks that were allocated before the error
		logsInMemory.Add(1)
		flags, fd = unix.MAP_SHARED|unix.MAP_ANONYMOUS, -1
	}

	return systemMmap(addr, length, prot, flags, fd, offset)
}

// allocateBlocks allocates the first n bytes of a file. With leaveRoom it fails if fewer than logRoom
// bytes of the disk would remain free.
func allocateBlocks(fd int, n int64, leaveRoom bool) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err == nil && leaveRoom && int64(st.Bavail)*st.Bsize < n+logRoom {
		return errs.WrapNoSpace(unix.ENOSPC)
	}

	for {
		if err := unix.Fallocate(fd, 0, 0, n); err != unix.EINTR {
			return errs.WrapNoSpace(err)
		}
	}
}
