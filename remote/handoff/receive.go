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

// A ReceivedHandoff is a handoff as its receiver records it.
type ReceivedHandoff struct {
	Line
	Keys    []string    `json:"keys"` // the data keys, see Area.Keys
	Ref     *remote.Ref `json:"ref"`
	Session string      `json:"session,omitempty"`
}

// claimSettleTime is the pause between the write of a claim and the read that shows who has the claim, on a remote
// without conditional writes. On such a remote, another receiver that writes its claim at the same time may replace
// the claim of this one.
const claimSettleTime = time.Second

// Claim opens a line and claims it. receiver is a random text that identifies the receiving machine. After an
// interruption, Claim succeeds again with the same text. The error is of the kind Perm if the line cannot be used.
func Claim(ctx context.Context, c *cache.Cache, l Line, receiver string) (*ReceivedHandoff, error) {
	area, err := openArea(c, l.URL, l.Key)
	if err != nil {
		return nil, err
	}
	defer area.Close()

	errUnusable := func(text string) error {
		return errs.New(errs.Perm, "the line %s; `amberfs handoff` on the other machine prints a new one", text)
	}
	ref, err := area.Ref(ctx, l.ID+".line")
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return nil, errUnusable("was used, or has expired")
	case errors.Is(err, errs.Perm) && !errors.Is(err, backend.ErrDenied):
		return nil, errs.New(errs.Perm, "the key in the line is not that of the handoff; copy the whole line")
	case err != nil:
		return nil, err
	case time.Now().After(ref.Expires):
		return nil, errUnusable("has expired " + ref.Expires.Local().Format(time.DateTime))
	}

	r := &ReceivedHandoff{Line: l, Keys: strings.Fields(ref.Labels[keysLabel]), Ref: ref, Session: ref.Labels[sessionLabel]}
	times, err := strconv.Atoi(ref.Labels[timesLabel])
	if err != nil || len(r.Keys) == 0 {
		return nil, errs.New(errs.Format, "another version of amberfs made the line")
	}

	for n := range times {
		if ok, err := r.claim(ctx, c, n+1, receiver); err != nil || ok {
			return r, err
		}
	}

	return nil, errUnusable("was used by another machine")
}

func claimName(id string, n int) string { return fmt.Sprintf("%s.got%d", id, n) }

// claim claims the line as receiver number n, counted from 1. ok is false if another receiver has this number.
func (r *ReceivedHandoff) claim(ctx context.Context, c *cache.Cache, n int, receiver string) (ok bool, err error) {
	area, err := openArea(c, r.URL, r.Keys...)
	if err != nil {
		return false, err
	}
	defer area.Close()

	name := claimName(r.ID, n)
	found, err := area.Ref(ctx, name)
	if errors.Is(err, backend.ErrNotFound) {
		claimRef := *r.Ref
		claimRef.Labels = map[string]string{claimLabel: receiver}
		if err := area.CopyRef(ctx, &claimRef, name); err != nil {
			return false, fmt.Errorf("claiming the line: %w", err)
		}

		f, err := area.Format(ctx)
		if err != nil {
			return false, err
		}
		if !f.ConditionalPuts {
			time.Sleep(claimSettleTime)
		}
		if found, err = area.Ref(ctx, name); err != nil {
			return false, err
		}
	} else if err != nil {
		return false, err
	}

	return found.Labels[claimLabel] == receiver, nil
}
