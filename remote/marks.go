package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/amberfs/amberfs/remote/backend"
)

// A gcMark is a mark that was read from the remote. gc.go explains the marks.
type gcMark struct {
	stage     string // seenPrefix, condemnedPrefix or removedPrefix
	id        string
	writtenAt time.Time // when it was written, by the service's clock
	objects   []string  // names
}

func (m gcMark) key() string { return m.stage + m.id }

const (
	seenPrefix      = "gc/seen-"
	condemnedPrefix = "gc/condemned-"
	removedPrefix   = "gc/removed-"
)

// listMarks lists and reads all marks of some stages. If a mark is deleted before it is read, listMarks starts again.
func listMarks(ctx context.Context, r *Remote, stages ...string) ([]gcMark, error) {
	for {
		var keys []backend.Info
		if err := r.b.List(ctx, "gc/", func(i backend.Info) error { keys = append(keys, i); return nil }); err != nil {
			return nil, err
		}
		if out, err := readMarks(ctx, r, keys, stages...); !errors.Is(err, backend.ErrNotFound) {
			return out, err
		}
	}
}

// readMarks reads the marks of some stages, if their keys are in keys. Errors: backend.ErrNotFound if a mark was
// deleted.
func readMarks(ctx context.Context, r *Remote, keys []backend.Info, stages ...string) (out []gcMark, err error) {
	for _, i := range keys {
		for _, stage := range stages {
			if id, ok := strings.CutPrefix(i.Key, stage); ok {
				out = append(out, gcMark{stage: stage, id: id, writtenAt: i.Modified})
			}
		}
	}

	for i := range out {
		raw, err := backend.Get(ctx, r.b, out[i].key())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", out[i].key(), err)
		}
		if err := json.Unmarshal(raw, &out[i].objects); err != nil {
			return nil, fmt.Errorf("%s: %w", out[i].key(), err)
		}
	}

	return out, nil
}

// readCondemned returns the names of the objects that a collection may remove, or has removed.
func readCondemned(ctx context.Context, r *Remote) (map[string]bool, error) {
	out := map[string]bool{}
	if r.b.IsRegistry() {
		return out, nil
	}

	marks, err := listMarks(ctx, r, condemnedPrefix, removedPrefix)
	for _, m := range marks {
		for _, o := range m.objects {
			out[o] = true
		}
	}

	return out, err
}
