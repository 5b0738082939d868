package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Snapshot is one that this process reads, while the daemon keeps its objects.
type Snapshot struct {
	service.Opened
	Tree *tree.State
	*reading
}

// reading is states that this process reads, while the daemon keeps their objects. It is a
// read-only tree.ObjectStore.
type reading struct {
	Source *tree.Source
	Close  func()

	ctx   context.Context
	c     *Client
	mu    sync.Mutex
	ahead map[cas.Hash][]byte
}

const sourceCache = 64 << 20

// Snapshot waits until a snapshot is sealed, and opens it. The caller closes it.
func (c *Client) Snapshot(ctx context.Context, name string) (*Snapshot, error) {
	s := &Snapshot{}
	var err error
	if s.reading, err = c.read(ctx, service.Open{Name: name}, &s.Opened); err != nil {
		return nil, err
	}
	if s.Tree, err = s.load(s.State); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Changes are what happened to a workspace since the state that it began from.
type Changes struct {
	Base, Now *tree.State
	*reading
}

// Changes opens what main began from and a snapshot, or the present state if name
// is empty. The caller closes it.
func (c *Client) Changes(ctx context.Context, name string) (*Changes, error) {
	var opened service.OpenedChanges
	r, err := c.read(ctx, service.OpenChanges{Name: name}, &opened)
	if err != nil {
		return nil, err
	}
	ch := &Changes{reading: r}
	if ch.Base, err = r.load(opened.Base); err == nil {
		ch.Now, err = r.load(opened.Now)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return ch, nil
}

// read asks for an operation that keeps objects as long as its answer is read, and
// reads what it opened.
func (c *Client) read(ctx context.Context, args, opened any) (*reading, error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s := &reading{ctx: ctx, c: c, Close: func() { cancel(); <-ended }}
	got := make(chan error, 2) // what opening it came to, and at the end the end
	go func() {
		defer close(ended)
		err := c.Do(ctx, args, Exchange{Item: func(raw json.RawMessage) error {
			err := json.Unmarshal(raw, opened)
			got <- err
			return err
		}}, nil)
		if err == nil {
			err = errors.New("the daemon did not open the snapshot")
		}
		got <- err
	}()
	if err := <-got; err != nil {
		s.Close()
		return nil, err
	}
	s.Source = tree.NewSource(s, nil, sourceCache)
	return s, nil
}

func (s *reading) load(id string) (*tree.State, error) {
	h, err := cas.ParseHash(id)
	if err != nil {
		return nil, err
	}
	return tree.Load(s.Source, h)
}

func (s *Snapshot) GitBases() []gitbridge.Base {
	var out []gitbridge.Base
	for _, b := range s.Bases {
		for _, commit := range slices.Backward(b.Commits) {
			out = append(out, gitbridge.Base{Commit: commit, State: func() (*tree.State, error) { return s.load(b.State) }})
		}
	}
	return out
}

func (s *reading) Put(cas.Kind, []byte) (cas.Hash, error) {
	return cas.Hash{}, errors.New("the store of another process is read only")
}

func (s *reading) Get(h cas.Hash, dst []byte) ([]byte, error) {
	s.mu.Lock()
	b, ok := s.ahead[h]
	delete(s.ahead, h)
	s.mu.Unlock()
	if !ok {
		got, err := s.ask([]cas.Hash{h})
		if err != nil {
			return nil, err
		}
		b = got[0]
	}
	return append(dst[:0], b...), nil
}

// Prefetch gets objects at once and keeps each in memory until it is asked for; see
// gitbridge.ExportOptions. Those that were not requested since the last call are released.
func (s *reading) Prefetch(hashes []cas.Hash) error {
	ahead := make(map[cas.Hash][]byte, len(hashes))
	for now := range slices.Chunk(hashes, service.MaxObjects) {
		got, err := s.ask(now)
		if err != nil {
			return err
		}
		for i, h := range now {
			ahead[h] = got[i]
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
	return nil
}

func (s *reading) ask(hashes []cas.Hash) ([][]byte, error) {
	var out bytes.Buffer
	req := service.Objects{Hashes: make([]string, len(hashes))}
	for i, h := range hashes {
		req.Hashes[i] = h.String()
	}
	if err := s.c.Do(s.ctx, req, Exchange{Out: &out}, nil); err != nil {
		return nil, fmt.Errorf("asking the daemon for objects: %w", err)
	}
	got, rest := make([][]byte, len(hashes)), out.Bytes()
	for i := range got {
		if len(rest) < 4 || len(rest)-4 < int(binary.LittleEndian.Uint32(rest)) {
			return nil, errors.New("the daemon's answer ends before the last object")
		}
		end := 4 + int(binary.LittleEndian.Uint32(rest))
		got[i], rest = rest[4:end], rest[end:]
	}
	return got, nil
}
