package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/service"
)

// objects reads those of an open snapshot. It is a tree.ObjectStore that cannot
// be written to.
type objects struct {
	ctx context.Context
	c   *Client

	mu    sync.Mutex
	ahead map[cas.Hash][]byte
}

// Put implements tree.ObjectStore.
func (o *objects) Put(cas.Kind, []byte) (cas.Hash, error) {
	return cas.Hash{}, errors.New("the store of another process is read only")
}

// Get implements tree.ObjectStore.
func (o *objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	o.mu.Lock()
	b, ok := o.ahead[h]
	delete(o.ahead, h)
	o.mu.Unlock()
	if !ok {
		got, err := o.ask([]cas.Hash{h})
		if err != nil {
			return nil, err
		}
		b = got[0]
	}
	return append(dst[:0], b...), nil
}

// Prefetch gets objects at once and keeps each in memory until it is asked for.
// Those that nobody asked for since the last call are let go.
func (o *objects) Prefetch(hashes []cas.Hash) error {
	ahead := make(map[cas.Hash][]byte, len(hashes))
	for len(hashes) > 0 {
		now := hashes[:min(service.MaxObjects, len(hashes))]
		hashes = hashes[len(now):]
		got, err := o.ask(now)
		if err != nil {
			return err
		}
		for i, h := range now {
			ahead[h] = got[i]
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ahead = ahead
	return nil
}

func (o *objects) ask(hashes []cas.Hash) ([][]byte, error) {
	var out bytes.Buffer
	req := service.Objects{Hashes: make([]string, len(hashes))}
	for i, h := range hashes {
		req.Hashes[i] = h.String()
	}
	if err := o.c.Do(o.ctx, req, Exchange{Out: &out}, nil); err != nil {
		return nil, fmt.Errorf("asking the daemon for objects: %w", err)
	}
	r := bufio.NewReader(&out)
	got := make([][]byte, len(hashes))
	for i := range got {
		var err error
		if got[i], err = readObject(r); err != nil {
			return nil, fmt.Errorf("reading objects from the daemon: %w", err)
		}
	}
	return got, nil
}

func readObject(r io.Reader) ([]byte, error) {
	var size uint32
	if err := binary.Read(r, binary.LittleEndian, &size); err != nil {
		return nil, err
	}
	if size > cas.MaxObject {
		return nil, errors.New("an object is too big")
	}
	b := make([]byte, size)
	_, err := io.ReadFull(r, b)
	return b, err
}
