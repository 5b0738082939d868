package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/amberfs/amberfs/remote/backend"
)

const (
	// holdTime is how long a hold counts after it was written.
	holdTime = 7 * 24 * time.Hour
	// holdGone is when a collection removes one. Whoever slept for so long and renews it
	// at that moment does so again the next day.
	holdGone = 2 * holdTime
)

// A hold names objects that somebody reads, whatever becomes of the ref.
type hold struct {
	Objects []backend.Object `json:"objects"`
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
