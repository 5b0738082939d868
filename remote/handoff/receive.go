package handoff

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
)

// A Received is a handoff as its receiver records it.
type Received struct {
	Line
	Keys    []string    `json:"keys"` // the data keys, see Area.Keys
	Ref     *remote.Ref `json:"ref"`
	Session string      `json:"session,omitempty"`
}

// lastClaim is the time after which a claim is read again on a remote without conditional writes, where a
// later claim may have replaced it.
const lastClaim = time.Second

// Claim opens a line and claims it for a receiver. by is a random text that identifies the receiver. After an
// interruption, Claim with the same by succeeds again. The error is of the kind Perm if the line cannot be
// used.
func Claim(ctx context.Context, c *cache.Cache, l Line, by string) (*Received, error) {
	at, err := open(c, l.URL, l.Key)
	if err != nil {
		return nil, err
	}
	defer at.Close()

	again := func(text string) error {
		return errs.New(errs.Perm, "the line %s; `amberfs handoff` on the other machine prints a new one", text)
	}
	ref, err := at.Ref(ctx, l.ID+".line")
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return nil, again("was used, or has expired")
	case errors.Is(err, errs.Perm) && !errors.Is(err, backend.ErrDenied):
		return nil, errs.New(errs.Perm, "the key in the line is not that of the handoff; copy the whole line")
	case err != nil:
		return nil, err
	case time.Now().After(ref.Expires):
		return nil, again("has expired " + ref.Expires.Local().Format(time.DateTime))
	}

	r := &Received{Line: l, Keys: strings.Fields(ref.Labels[keysLabel]), Ref: ref, Session: ref.Labels[sessionLabel]}
	times, err := strconv.Atoi(ref.Labels[timesLabel])
	if err != nil || len(r.Keys) == 0 {
		return nil, errs.New(errs.Format, "another version of amberfs made the line")
	}

	for n := range times {
		if ok, err := r.claim(ctx, c, n+1, by); err != nil || ok {
			return r, err
		}
	}

	return nil, again("was used by another machine")
}

func claimName(id string, n int) string { return fmt.Sprintf("%s.got%d", id, n) }

// claim claims the line as the nth receiver. ok is false if another receiver has this claim.
func (r *Received) claim(ctx context.Context, c *cache.Cache, n int, by string) (ok bool, err error) {
	at, err := open(c, r.URL, r.Keys...)
	if err != nil {
		return false, err
	}
	defer at.Close()

	name := claimName(r.ID, n)
	found, err := at.Ref(ctx, name)
	if errors.Is(err, backend.ErrNotFound) {
		mine := *r.Ref
		mine.Labels = map[string]string{claimLabel: by}
		if err := at.CopyRef(ctx, &mine, name); err != nil {
			return false, fmt.Errorf("claiming the line: %w", err)
		}

		f, err := at.Format(ctx)
		if err != nil {
			return false, err
		}
		if !f.Conditional {
			time.Sleep(lastClaim)
		}
		if found, err = at.Ref(ctx, name); err != nil {
			return false, err
		}
	} else if err != nil {
		return false, err
	}

	return found.Labels[claimLabel] == by, nil
}
