package client

import (
	"context"
	"encoding/json"
	"errors"

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

// reading is states that this process reads, while the daemon keeps their objects.
type reading struct {
	Source  *tree.Source
	objects *objects
	end     func()
}

// sourceCache is the memory for what is read of a snapshot, in bytes.
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
	o, ended := &objects{ctx: ctx, c: c}, make(chan struct{})
	s := &reading{objects: o, end: func() { cancel(); <-ended }}
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
	s.Source = tree.NewSource(o, nil, sourceCache)
	return s, nil
}

// load returns a state that the daemon keeps for this process.
func (s *reading) load(id string) (*tree.State, error) {
	h, err := cas.ParseHash(id)
	if err != nil {
		return nil, err
	}
	return tree.Load(s.Source, h)
}

// Prefetch reads objects ahead; see gitbridge.ExportOptions.
func (s *reading) Prefetch(hashes []cas.Hash) error { return s.objects.Prefetch(hashes) }

// GitBases are the exports to build upon.
func (s *Snapshot) GitBases() []gitbridge.Base {
	var out []gitbridge.Base
	for _, b := range s.Bases {
		for i := len(b.Commits) - 1; i >= 0; i-- {
			out = append(out, gitbridge.Base{Commit: b.Commits[i], State: func() (*tree.State, error) { return s.load(b.State) }})
		}
	}
	return out
}

// Close lets go of what was opened.
func (s *reading) Close() { s.end() }
