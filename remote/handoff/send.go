package handoff

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
)

// Terms are the conditions of a line, and the agent's session that is sent with the tree.
type Terms struct {
	Expires   time.Time
	MaxClaims int    // number of receivers that may claim the line
	Session   string // the id of the agent's session, "" for none
	// Transcript is the transcript of the session, compressed by gzip.
	Transcript []byte
}

// Labels of refs.
const (
	keysLabel       = "handoff-keys" // separated by blanks
	timesLabel      = "handoff-times"
	sessionLabel    = "handoff-session"
	transcriptLabel = "handoff-transcript" // the last object of the ref is the transcript
	claimLabel      = "handoff-claim"      // the random text of the receiver, see Claim
)

// openArea opens the area at a URL. Values are decrypted with all keys, and encrypted to the last of them.
func openArea(c *cache.Cache, url string, keys ...string) (*remote.Remote, error) {
	o := remote.Options{Cache: c}

	for _, k := range keys {
		id, err := age.ParseX25519Identity(k)
		if err != nil {
			return nil, errs.New(errs.Damaged, "a key of the handoff is malformed") // err is not wrapped, because it may quote the key
		}
		o.Identities, o.EncryptTo = append(o.Identities, id), []string{id.Recipient().String()}
	}

	return remote.Open(url, o)
}

// open opens the area with all its keys, and encrypts to the newest data key.
func (a *Area) open(c *cache.Cache) (*remote.Remote, error) {
	var keys []string
	for _, s := range a.Handoffs {
		keys = append(keys, s.Key)
	}
	return openArea(c, a.URL, append(keys, a.Keys...)...)
}

// AddHandoff adds a new handoff with its keys. The caller stores the area on disk before it calls Send. So Sweep can
// remove the refs that a killed Send left.
func (a *Area) AddHandoff(id, fork string, t Terms) error {
	dataKey, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	lineKey, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}

	a.Keys, a.LastUsed = append(a.Keys, dataKey.String()), time.Now()
	a.Handoffs = append(a.Handoffs, SentHandoff{Line: Line{a.URL, id, lineKey.String()}, MaxClaims: t.MaxClaims, Fork: fork, Expires: t.Expires})

	return nil
}

// Send pushes the snapshot of the handoff that the last AddHandoff added, and writes the ref of its line.
func (a *Area) Send(ctx context.Context, c *cache.Cache, p remote.PushOptions, t Terms) (*remote.PushResult, error) {
	area, err := a.open(c)
	if err != nil {
		return nil, err
	}
	defer area.Close()

	if err := backend.MakeDir(a.URL); err != nil {
		return nil, err
	}
	if _, err := area.Init(ctx, nil, func(string) {}); err != nil {
		return nil, err
	}

	firstKey := a.FirstKey
	if p.SendAll = len(a.Keys)-firstKey > maxKeys; p.SendAll {
		firstKey = len(a.Keys) - 1
	}
	sent := &a.Handoffs[len(a.Handoffs)-1]
	p.Ref.Name, p.Base = sent.ID, a.baseID()
	result, err := area.Push(ctx, p)
	if err != nil {
		return nil, err
	}

	if err := writeLine(ctx, c, area, sent.Line, *result.Ref, a.Keys[firstKey:], t); err != nil {
		return nil, err
	}
	sent.Uploaded, a.FirstKey = true, firstKey

	return result, nil
}

// writeLine writes the ref of a line: a copy of ref with data keys. It also writes the transcript as an object.
func writeLine(ctx context.Context, c *cache.Cache, area *remote.Remote, l Line, ref remote.Ref, keys []string, t Terms) error {
	ref.Expires = t.Expires
	ref.Labels = map[string]string{keysLabel: strings.Join(keys, " "), timesLabel: strconv.Itoa(t.MaxClaims), sessionLabel: t.Session}
	if len(t.Transcript) > 0 {
		o, err := remote.PutObject(ctx, area, t.Transcript)
		if err != nil {
			return err
		}
		ref.Objects = append(slices.Clip(ref.Objects), o)
		ref.Labels[transcriptLabel] = "yes"
	}

	lineRemote, err := openArea(c, l.URL, l.Key)
	if err != nil {
		return err
	}
	defer lineRemote.Close()

	return lineRemote.CopyRef(ctx, &ref, l.ID+".line")
}

// MissingBytes returns the number of bytes that Send would send.
func (a *Area) MissingBytes(ctx context.Context, c *cache.Cache, p remote.PushOptions) (int64, error) {
	area, err := a.open(c)
	if err != nil {
		return 0, err
	}
	defer area.Close()

	p.Ref.Name, p.Base = "missing", a.baseID()
	p.SendAll = p.Base == ""

	return remote.MissingBytes(ctx, area, p)
}

// FindReturned returns the opened area, and the ref of the snapshot that a receiver of a handoff sent back. The
// caller closes the area. The error is backend.ErrNotFound if no receiver has sent a snapshot back.
func (a *Area) FindReturned(ctx context.Context, c *cache.Cache, id string) (*remote.Remote, *remote.Ref, error) {
	area, err := a.open(c)
	if err != nil {
		return nil, nil, err
	}

	ref, err := area.Ref(ctx, id+".back")
	if err != nil {
		area.Close()
		return nil, nil, err
	}

	return area, ref, nil
}

// Sweep removes the lines that have expired, and the snapshots of handoffs that have ended. It keeps the newest
// snapshot, because the next handoff shares objects with it. If endAll is set, Sweep ends every handoff, and also
// removes the newest snapshot. The objects stay on the remote until its next gc, but nobody can decrypt them: their
// keys were in the removed refs and in the area, which the caller then drops.
func (a *Area) Sweep(ctx context.Context, c *cache.Cache, endAll bool) error {
	if len(a.Handoffs) == 0 {
		return nil
	}
	area, err := a.open(c)
	if err != nil {
		return err
	}
	defer area.Close()

	newest := a.baseID()
	var kept []SentHandoff
	for _, s := range a.Handoffs {
		ended, err := a.closeHandoff(ctx, area, &s, endAll)
		if err != nil {
			return err
		}
		if !ended || s.ID == newest && !endAll {
			kept = append(kept, s)
			continue
		}

		names := []string{s.ID, s.ID + ".back"}
		for n := range s.MaxClaims {
			names = append(names, claimName(s.ID, n+1))
		}
		for _, name := range names {
			if err := area.Remove(ctx, name); err != nil && !errors.Is(err, backend.ErrNotFound) {
				return err
			}
		}
	}

	removed := len(kept) < len(a.Handoffs)
	if a.Handoffs = kept; removed {
		_, err = area.GC(ctx)
	}

	return err
}

// A receiver that claimed a line can send changes back until returnPeriod after the line's expiry.
const returnPeriod = 30 * 24 * time.Hour

// closeHandoff removes the line of a handoff that has expired or was merged. If always is set, it removes the line of
// any handoff. It reports whether the handoff has ended, so that nobody needs its snapshot.
func (a *Area) closeHandoff(ctx context.Context, area *remote.Remote, s *SentHandoff, always bool) (ended bool, err error) {
	sinceExpiry := time.Since(s.Expires)
	if sinceExpiry < 0 && !s.Merged && !always {
		return false, nil
	}
	if !s.LineRemoved {
		if err := area.Remove(ctx, s.ID+".line"); err != nil && !errors.Is(err, backend.ErrNotFound) {
			return false, err
		}
		s.LineRemoved = true
	}
	if s.Merged || always || sinceExpiry > returnPeriod {
		return true, nil
	}

	_, err = area.Ref(ctx, claimName(s.ID, 1))
	if errors.Is(err, backend.ErrNotFound) {
		return true, nil
	}

	return false, err
}
