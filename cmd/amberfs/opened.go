package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/objects"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// opened is a snapshot that this command reads, while the daemon hands out its
// objects.
type opened struct {
	api.Opened
	place   locate.Place
	objects *objects.Client
	src     *tree.Source
	state   *tree.State

	asks *io.PipeWriter
	said chan error // how the request ended
}

// sourceCache is the memory for what is read of a snapshot, in bytes.
const sourceCache = 64 << 20

// open waits until a snapshot is sealed, and opens it. The caller closes it.
func (a *app) open(ctx context.Context, p locate.Place, name string, bar *progress) (*opened, error) {
	askR, askW := io.Pipe()
	answerR, answerW := io.Pipe()
	o := &opened{place: p, asks: askW, said: make(chan error, 1)}
	header := make(chan api.Opened, 1)
	go func() {
		err := a.ask(ctx, p, request{
			op: "open", args: api.Name{Name: name}, input: askR, output: answerW, show: bar,
			onItem: func(raw json.RawMessage) error {
				var h api.Opened
				err := json.Unmarshal(raw, &h)
				header <- h
				return err
			},
		}, nil)
		askR.CloseWithError(io.ErrClosedPipe)
		answerW.CloseWithError(io.ErrUnexpectedEOF)
		o.said <- err
	}()
	select {
	case o.Opened = <-header:
	case err := <-o.said:
		if err == nil {
			err = errors.New("the daemon did not open the snapshot")
		}
		return nil, err
	}
	o.objects = objects.NewClient(askW, answerR)
	o.src = tree.NewSource(o.objects, nil, sourceCache)
	var err error
	if o.state, err = o.load(o.State); err != nil {
		return nil, o.close(err)
	}
	return o, nil
}

// load returns a state that the daemon holds for this command.
func (o *opened) load(id string) (*tree.State, error) {
	h, err := cas.ParseHash(id)
	if err != nil {
		return nil, err
	}
	return tree.Load(o.src, h)
}

// close ends the reading. Of err and what the daemon said it returns the cause.
func (o *opened) close(err error) error {
	o.asks.Close()
	said := <-o.said
	if err != nil && errors.Is(said, context.Canceled) {
		return said
	}
	var f *fail.Error
	if errors.As(said, &f) || err == nil {
		return said
	}
	return err
}

// bases are the exports to build upon.
func (o *opened) bases() []gitbridge.Base {
	var out []gitbridge.Base
	for _, b := range o.Bases {
		for i := len(b.Commits) - 1; i >= 0; i-- {
			out = append(out, gitbridge.Base{Commit: b.Commits[i], State: func() (*tree.State, error) { return o.load(b.State) }})
		}
	}
	return out
}

// cacheDir is where the store keeps what is known of repositories.
func (o *opened) cacheDir() string { return filepath.Join(o.place.Store, api.GitCache) }
