// Package objects lets a command read the objects of a store that its daemon has
// open, over the control socket.
//
// A request is a count and so many hashes; the answer is the length and the bytes
// of each object, in order. Counts and lengths are 32 bits, little endian. When
// an object cannot be had, the answer ends, and the daemon's last line says why.
package objects

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/amberfs/amberfs/cas"
)

const (
	maxBatch  = 1 << 20
	maxObject = 64 << 20
)

// Client asks for objects. It is a tree.ObjectStore that cannot be written to.
type Client struct {
	mu    sync.Mutex
	w     io.Writer
	r     *bufio.Reader
	ahead map[cas.Hash][]byte
}

// NewClient returns a client that asks on w and is answered on r.
func NewClient(w io.Writer, r io.Reader) *Client {
	return &Client{w: w, r: bufio.NewReaderSize(r, 256<<10), ahead: make(map[cas.Hash][]byte)}
}

// Put implements tree.ObjectStore.
func (c *Client) Put(cas.Kind, []byte) (cas.Hash, error) {
	return cas.Hash{}, errors.New("the store of another process is read only")
}

// Get implements tree.ObjectStore.
func (c *Client) Get(h cas.Hash, dst []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.ahead[h]; ok {
		delete(c.ahead, h)
		return append(dst[:0], b...), nil
	}
	if err := c.ask([]cas.Hash{h}); err != nil {
		return nil, err
	}
	return c.answer(dst)
}

// Prefetch gets objects at once and keeps each in memory until it is asked for.
// Those that nobody asked for since the last call are let go.
func (c *Client) Prefetch(hashes []cas.Hash) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.ahead)
	for len(hashes) > 0 {
		// Not more than the daemon may have to hold back while it is still asked.
		const step = 1024
		now := hashes[:min(step, len(hashes))]
		hashes = hashes[len(now):]
		if err := c.ask(now); err != nil {
			return err
		}
		for _, h := range now {
			b, err := c.answer(nil)
			if err != nil {
				return err
			}
			c.ahead[h] = b
		}
	}
	return nil
}

func (c *Client) ask(hashes []cas.Hash) error {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(hashes)*len(cas.Hash{})), uint32(len(hashes)))
	for i := range hashes {
		b = append(b, hashes[i][:]...)
	}
	if _, err := c.w.Write(b); err != nil {
		return fmt.Errorf("asking the daemon for objects: %w", err)
	}
	return nil
}

func (c *Client) answer(dst []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, fmt.Errorf("reading objects from the daemon: %w", err)
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxObject {
		return nil, errors.New("the daemon sends an object that is too big")
	}
	if uint32(cap(dst)) < n {
		dst = make([]byte, n)
	}
	dst = dst[:n]
	if _, err := io.ReadFull(c.r, dst); err != nil {
		return nil, fmt.Errorf("reading objects from the daemon: %w", err)
	}
	return dst, nil
}

// Serve answers until r ends.
func Serve(r io.Reader, w io.Writer, get func(cas.Hash, []byte) ([]byte, error)) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 256<<10)
	var object []byte
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > maxBatch {
			return errors.New("too many objects at once")
		}
		for ; n > 0; n-- {
			var h cas.Hash
			if _, err := io.ReadFull(in, h[:]); err != nil {
				return err
			}
			var err error
			if object, err = get(h, object); err != nil {
				return err
			}
			binary.LittleEndian.PutUint32(head[:], uint32(len(object)))
			out.Write(head[:])
			if _, err := out.Write(object); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}
