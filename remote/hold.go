package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/amberfs/amberfs/remote/backend"
)

// holdTime is how long a hold counts after it was written.
const holdTime = 7 * 24 * time.Hour

// A hold names objects that somebody reads, whatever becomes of the ref.
type hold struct {
	Objects []backend.Object `json:"objects"`
	at      time.Time
}

// Hold keeps what the snapshot needs from being collected for a week. Whoever reads
// it for longer calls this once a day, with the same id.
func (s *Snapshot) Hold(ctx context.Context, id string) error {
	r := s.r
	if r.b.Collects() {
		return nil
	}
	// The URL may come from a store that somebody else has made: nothing is written
	// where no remote was set up.
	if _, err := r.Format(ctx); err != nil {
		return err
	}
	raw, err := json.Marshal(hold{Objects: s.Ref.Objects})
	if err != nil {
		return fmt.Errorf("encode hold: %w", err)
	}
	_, err = r.b.Put(ctx, "hold/"+id, raw, backend.PutOptions{})
	return err
}

// Release ends a hold.
func (r *Remote) Release(ctx context.Context, id string) error {
	if r.b.Collects() {
		return nil
	}
	return r.b.Delete(ctx, "hold/"+id)
}

func (r *Remote) holds(ctx context.Context) (out []hold, err error) {
	var infos []backend.Info
	if err := r.b.List(ctx, "hold/", func(i backend.Info) error { infos = append(infos, i); return nil }); err != nil {
		return nil, err
	}
	for _, i := range infos {
		raw, _, err := r.b.Get(ctx, i.Key)
		if errors.Is(err, backend.ErrNotFound) {
			continue // released meanwhile
		}
		h := hold{at: i.Modified}
		if err == nil {
			err = json.Unmarshal(raw, &h)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Key, err)
		}
		out = append(out, h)
	}
	return out, nil
}
