package fusefs

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// buffers hold one request and one answer. They are no part of the heap: they
// are large, and for the most part never touched.
type buffers struct{ in, out []byte }

// inPid is where struct fuse_in_header has the client's thread.
const inPid = 32

// slack is room for the headers beside the data of the largest request.
const slack = 8 << 10

func newBuffers() (buffers, error) {
	in, err := unix.Mmap(-1, 0, maxIO+slack, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return buffers{}, fmt.Errorf("buffer for requests: %w", err)
	}
	out, err := unix.Mmap(-1, 0, maxIO+slack, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		_ = unix.Munmap(in)
		return buffers{}, fmt.Errorf("buffer for answers: %w", err)
	}
	return buffers{in, out}, nil
}

func (b buffers) free() {
	_ = unix.Munmap(b.in)
	_ = unix.Munmap(b.out)
}

// maxSpare is how many buffers that no reader has are kept: readers come and go
// while requests are large, and each page of a new buffer is a page fault.
const maxSpare = 4

// spareBuffers are those that no reader has at present.
type spareBuffers struct {
	mu   sync.Mutex
	kept []buffers
}

// take returns buffers, to be given back.
func (s *spareBuffers) take() (buffers, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.kept); n > 0 {
		b := s.kept[n-1]
		s.kept = s.kept[:n-1]
		return b, nil
	}
	return newBuffers()
}

func (s *spareBuffers) give(b buffers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) < maxSpare {
		s.kept = append(s.kept, b)
		return
	}
	b.free()
}

// free gives their memory back.
func (s *spareBuffers) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.kept {
		b.free()
	}
	s.kept = nil
}
