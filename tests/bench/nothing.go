package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// openNothing mounts a FUSE server that keeps names and sizes in memory, and no bytes: what it
// takes is the least that a server with one reader can take. The server is a process of its own.
func openNothing(_ *bench, p *place) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return openDaemon(p, self, "-nothing", p.dir)
}

// nothing is that server. It has one thread, and so no lock. All files are in its tables for ever.
type nothing struct {
	fuse.RawFileSystem
	names map[entry]uint64 // node ids
	nodes []node           // by node id less one; the first is the root
	zeros []byte
}

type entry struct {
	dir  uint64
	name string
}

type node struct {
	size uint64
	mode uint32
}

const nothingIO = 1 << 20

// serveNothing mounts the server and answers until it is unmounted.
func serveNothing(dir string) error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read=%d", fd, nothingIO)
	if err := unix.Mount("nothing", dir, "fuse.nothing", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return err
	}
	s := fuse.NewProtocolServer(&nothing{
		fuse.NewDefaultRawFileSystem(), map[entry]uint64{}, []node{{mode: unix.S_IFDIR | 0o755}}, make([]byte, nothingIO),
	}, &fuse.MountOptions{Name: "nothing", MaxWrite: nothingIO, ExplicitDataCacheControl: true,
		ExtraCapabilities: fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_NO_OPENDIR_SUPPORT})
	in, out := make([]byte, nothingIO+8<<10), make([]byte, nothingIO+8<<10)
	for {
		awaitRequest(fd)
		n, err := unix.Read(fd, in)
		if errors.Is(err, unix.ENODEV) { // it was unmounted
			return nil
		}
		if err != nil { // the request was interrupted
			continue
		}
		size, status := s.HandleRequest([][]byte{in[:n]}, [][]byte{out})
		if status != fuse.OK || size == 0 {
			continue
		}
		if _, err := unix.Write(fd, out[:size]); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
}

// awaitRequest polls for 50 µs, as amberfs does.
func awaitRequest(fd int) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	var zero unix.Timespec
	for start := time.Now(); time.Since(start) < 50*time.Microsecond; {
		n, _, _ := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 1, uintptr(unsafe.Pointer(&zero)), 0, 0, 0)
		if n != 0 {
			return
		}
	}
}

func (s *nothing) attr(id uint64, out *fuse.Attr) {
	n := s.nodes[id-1]
	out.Ino, out.Size, out.Mode, out.Nlink, out.Blksize = id, n.size, n.mode, 1, 4096
}

func (s *nothing) fill(id uint64, out *fuse.EntryOut) fuse.Status {
	out.NodeId = id
	if id != 0 {
		s.attr(id, &out.Attr)
	}
	out.SetEntryTimeout(time.Hour)
	out.SetAttrTimeout(time.Hour)
	return fuse.OK
}

func (s *nothing) add(dir uint64, name string, mode uint32, out *fuse.EntryOut) fuse.Status {
	s.nodes = append(s.nodes, node{mode: mode})
	s.names[entry{dir, name}] = uint64(len(s.nodes))
	return s.fill(uint64(len(s.nodes)), out)
}

func (s *nothing) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return s.fill(s.names[entry{h.NodeId, name}], out)
}

func (s *nothing) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	s.attr(in.NodeId, &out.Attr)
	out.SetTimeout(time.Hour)
	return fuse.OK
}

func (s *nothing) SetAttr(c <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if size, ok := in.GetSize(); ok {
		s.nodes[in.NodeId-1].size = size
	}
	return s.GetAttr(c, &fuse.GetAttrIn{InHeader: in.InHeader}, out)
}

func (s *nothing) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return s.add(in.NodeId, name, unix.S_IFREG|in.Mode&0o7777, &out.EntryOut)
}

func (s *nothing) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return s.add(in.NodeId, name, unix.S_IFDIR|in.Mode&0o7777, out)
}

func (s *nothing) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	old := entry{in.NodeId, from}
	s.names[entry{in.Newdir, to}] = s.names[old]
	delete(s.names, old)
	return fuse.OK
}

func (s *nothing) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	delete(s.names, entry{h.NodeId, name})
	return fuse.OK
}

func (s *nothing) Rmdir(c <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return s.Unlink(c, h, name)
}

func (s *nothing) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	left := max(s.nodes[in.NodeId-1].size, in.Offset) - in.Offset
	return fuse.ReadResultData(s.zeros[:min(uint64(in.Size), left)]), fuse.OK
}

func (s *nothing) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	n := &s.nodes[in.NodeId-1]
	n.size = max(n.size, in.Offset+uint64(len(data)))
	return uint32(len(data)), fuse.OK
}

// Open and the rest are answered as amberfs does: the kernel then asks no more.
func (s *nothing) Open(_ <-chan struct{}, _ *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	return fuse.ENOSYS
}

func (s *nothing) OpenDir(_ <-chan struct{}, _ *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	return fuse.ENOSYS
}

// GetXAttr is asked before each write, as of amberfs.
func (s *nothing) GetXAttr(_ <-chan struct{}, _ *fuse.InHeader, _ string, _ []byte) (uint32, fuse.Status) {
	return 0, fuse.ENODATA
}
