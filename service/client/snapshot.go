package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// A Snapshot is an open snapshot: this process reads its files from the daemon. The daemon protects the objects of
// the snapshot from gc until Close.
type Snapshot struct {
	service.Opened
	Tree *tree.State
	*objectReader
}

// An objectReader reads objects of states from the daemon, which protects the objects from gc until Close. It
// is a read-only content.ObjectStore.
type objectReader struct {
	Source *tree.Source
	Close  func()

	ctx        context.Context
	client     *Client
	mu         sync.Mutex
	prefetched map[cas.Hash][]byte // the objects of the last Prefetch that were not read yet
}

const sourceCacheSize = 64 << 20 // bytes

// Snapshot waits until a snapshot is sealed, and opens it. The caller closes it.
func (c *Client) Snapshot(ctx context.Context, name string) (*Snapshot, error) {
	s := &Snapshot{}
	var err error
	if s.objectReader, err = c.openObjects(ctx, service.Open{Name: name}, &s.Opened); err != nil {
		return nil, err
	}

	if s.Tree, err = s.loadState(s.State); err != nil {
		s.Close()
		return nil, err
	}

	return s, nil
}

// Changes has two states. Base is the state of the directory from which the workspace was filled. Now is a later
// state of the workspace. The differences between the two are the changes of the workspace.
type Changes struct {
	Base, Now *tree.State
	// UndoesApply is set if the changes undo an apply. Then Base and Now are the states of the directory after and
	// before the apply.
	UndoesApply bool
	// Hidden describes the paths of the directory that are hidden from the workspace.
	Hidden hostdir.Hidden
	*objectReader
}

// Store returns the directory of the store.
func (ch *Changes) Store() string { return ch.client.target.Store }

// Changes opens the state of the directory from which the workspace was filled, and a snapshot or, if
// name is empty, the present state. The caller closes it.
func (c *Client) Changes(ctx context.Context, name string) (*Changes, error) {
	return c.openChanges(ctx, service.OpenChanges{Name: name})
}

// UndoChanges opens the states of a directory after (Base) and before (Now) an apply. number is the number of
// the apply's operation. The caller closes the result.
func (c *Client) UndoChanges(ctx context.Context, number uint64) (*Changes, error) {
	return c.openChanges(ctx, service.OpenChanges{Undo: number})
}

func (c *Client) openChanges(ctx context.Context, args service.OpenChanges) (*Changes, error) {
	var opened service.OpenedChanges
	r, err := c.openObjects(ctx, args, &opened)
	if err != nil {
		return nil, err
	}

	hidden, hideErr := hide.New(opened.Hide)
	base, baseErr := r.loadState(opened.Base)
	now, nowErr := r.loadState(opened.Now)
	if err := cmp.Or(hideErr, baseErr, nowErr); err != nil {
		r.Close()
		return nil, err
	}

	return &Changes{
		Base: base, Now: now, UndoesApply: args.Undo != 0, Hidden: hostdir.Hidden{Paths: hidden, ShowEmpty: opened.HideAsEmpty}, objectReader: r,
	}, nil
}

// openObjects calls an operation that protects objects from gc until the client closes the connection, which
// objectReader.Close does. It decodes the operation's only event into opened.
func (c *Client) openObjects(ctx context.Context, args, opened any) (*objectReader, error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s := &objectReader{ctx: ctx, client: c, Close: func() { cancel(); <-ended }}
	got := make(chan error, 2) // one error for the event, and one when the operation ends
	go func() {
		defer close(ended)

		err := c.Do(ctx, args, Streams{Item: func(raw json.RawMessage) error {
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

	s.Source = tree.NewSource(s, nil, sourceCacheSize)
	return s, nil
}

func (s *objectReader) loadState(id string) (*tree.State, error) {
	h, err := cas.ParseHash(id)
	if err != nil {
		return nil, err
	}
	return tree.Load(s.Source, h)
}

// GitBases returns the bases of an export of the snapshot. A base with several commits is returned once for
// each, the newest commit first.
func (s *Snapshot) GitBases() []gitbridge.Base {
	var out []gitbridge.Base
	for _, b := range s.Bases {
		for _, commit := range slices.Backward(b.Commits) {
			out = append(out, gitbridge.Base{Commit: commit, State: func() (*tree.State, error) { return s.loadState(b.State) }})
		}
	}

	return out
}

func (s *objectReader) Put(cas.Kind, []byte) (cas.Hash, error) {
	return cas.Hash{}, errors.New("the store of another process is read only")
}

func (s *objectReader) Get(h cas.Hash, dst []byte) ([]byte, error) {
	s.mu.Lock()
	b, ok := s.prefetched[h]
	delete(s.prefetched, h)
	s.mu.Unlock()

	if !ok {
		got, err := s.fetch([]cas.Hash{h})
		if err != nil {
			return nil, err
		}
		b = got[0]
	}

	return append(dst[:0], b...), nil
}

// Prefetch reads objects together and keeps each in memory until Get returns it; see
// gitbridge.ExportOptions. It drops the objects of the last Prefetch.
func (s *objectReader) Prefetch(hashes []cas.Hash) error {
	fetched := make(map[cas.Hash][]byte, len(hashes))

	for chunk := range slices.Chunk(hashes, service.MaxObjects) {
		got, err := s.fetch(chunk)
		if err != nil {
			return err
		}
		for i, h := range chunk {
			fetched[h] = got[i]
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.prefetched = fetched

	return nil
}

// fetch reads objects in one request, in the order of hashes.
func (s *objectReader) fetch(hashes []cas.Hash) ([][]byte, error) {
	var out bytes.Buffer
	req := service.Objects{Hashes: make([]string, len(hashes))}
	for i, h := range hashes {
		req.Hashes[i] = h.String()
	}
	if err := s.client.Do(s.ctx, req, Streams{Out: &out}, nil); err != nil {
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

// RecordApply records the state of a directory before or after an apply, see service.RecordApply. It calls the
// function read with a state that the daemon has, and a sink. The function passes the files of the directory that
// differ from the state to the sink.
func (ch *Changes) RecordApply(ctx context.Context, req service.RecordApply, read func(*tree.State, stream.Sink) error) (result service.RecordedApply, err error) {
	st := ch.Base
	if req.Number != 0 {
		if st, err = ch.loadState(req.Base); err != nil {
			return result, err
		}
	}

	return result, ch.client.Send(ctx, req, func(sink stream.Sink) error { return read(st, sink) }, &result)
}

// Send calls an operation that reads a stream of entries. feed passes the entries to a sink. If feed fails, Send
// returns its error, and the daemon carries nothing out.
func (c *Client) Send(ctx context.Context, args any, feed func(stream.Sink) error, result any) error {
	pr, pw := io.Pipe()
	fed := make(chan error, 1)

	go func() {
		sink := stream.NewWriter(pw)
		err := feed(sink.Add)
		if err == nil {
			err = sink.Close()
		}

		pw.CloseWithError(err)
		fed <- err
	}()

	err := c.Do(ctx, args, Streams{In: pr}, result)
	pr.Close()
	if ferr := <-fed; err != nil && ferr != nil && !errors.Is(ferr, io.ErrClosedPipe) {
		return ferr
	}

	return err
}
