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
	Expires time.Time
	Times   int    // how many receivers may claim the line
	Session string // the id of the agent's session, "" for none
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

// open opens an area with keys for decryption. Written values are encrypted to the last key.
func open(c *cache.Cache, url string, keys ...string) (*remote.Remote, error) {
	o := remote.Options{Cache: c}

	for _, k := range keys {
		id, err := age.ParseX25519Identity(k)
		if err != nil {
			return nil, errs.New(errs.Damaged, "a key of the handoff is malformed") // the error may quote the key
		}
		o.Identities, o.To = append(o.Identities, id), []string{id.Recipient().String()}
	}

	return remote.Open(url, o)
}

// open opens the area with all its keys, and encrypts to the newest data key.
func (a *Area) open(c *cache.Cache) (*remote.Remote, error) {
	var keys []string
	for _, s := range a.Sent {
		keys = append(keys, s.Key)
	}
	return open(c, a.URL, append(keys, a.Keys...)...)
}

// Begin adds a new handoff with its keys. The caller records the area before it calls Send, so that Sweep
// removes the refs of a Send that was killed.
func (a *Area) Begin(id, fork string, t Terms) error {
	data, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}

	a.Keys, a.Used = append(a.Keys, data.String()), time.Now()
	a.Sent = append(a.Sent, Sent{Line: Line{a.URL, id, key.String()}, Times: t.Times, Fork: fork, Expires: t.Expires})

	return nil
}

// Send pushes the snapshot of the handoff that the last Begin added, and writes the ref of its line.
func (a *Area) Send(ctx context.Context, c *cache.Cache, p remote.Push, t Terms) (*remote.Pushed, error) {
	at, err := a.open(c)
	if err != nil {
		return nil, err
	}
	defer at.Close()

	if err := backend.MakeDir(a.URL); err != nil {
		return nil, err
	}
	if _, err := at.Init(ctx, nil, func(string) {}); err != nil {
		return nil, err
	}

	first := a.First
	if p.Full = len(a.Keys)-first > maxKeys; p.Full {
		first = len(a.Keys) - 1
	}
	sent := &a.Sent[len(a.Sent)-1]
	p.Ref.Name, p.Base = sent.ID, a.base()
	done, err := at.Push(ctx, p)
	if err != nil {
		return nil, err
	}

	if err := writeLine(ctx, c, at, sent.Line, *done.Ref, a.Keys[first:], t); err != nil {
		return nil, err
	}
	sent.Sent, a.First = true, first

	return done, nil
}

// writeLine writes the ref of a line, with the data keys keys, and the object of the transcript.
func writeLine(ctx context.Context, c *cache.Cache, at *remote.Remote, l Line, ref remote.Ref, keys []string, t Terms) error {
	ref.Expires = t.Expires
	ref.Labels = map[string]string{keysLabel: strings.Join(keys, " "), timesLabel: strconv.Itoa(t.Times), sessionLabel: t.Session}
	if len(t.Transcript) > 0 {
		o, err := remote.PutObject(ctx, at, t.Transcript)
		if err != nil {
			return err
		}
		ref.Objects = append(slices.Clip(ref.Objects), o)
		ref.Labels[transcriptLabel] = "yes"
	}

	to, err := open(c, l.URL, l.Key)
	if err != nil {
		return err
	}
	defer to.Close()

	return to.CopyRef(ctx, &ref, l.ID+".line")
}

// Missing returns the number of bytes that Send would send.
func (a *Area) Missing(ctx context.Context, c *cache.Cache, p remote.Push) (int64, error) {
	at, err := a.open(c)
	if err != nil {
		return 0, err
	}
	defer at.Close()

	p.Ref.Name, p.Base = "missing", a.base()
	p.Full = p.Base == ""

	return remote.Missing(ctx, at, p)
}

// Returned returns the area, and the ref of the snapshot that a receiver of the handoff id sent back. The
// caller closes the area. The error is backend.ErrNotFound if no receiver has sent one.
func (a *Area) Returned(ctx context.Context, c *cache.Cache, id string) (*remote.Remote, *remote.Ref, error) {
	at, err := a.open(c)
	if err != nil {
		return nil, nil, err
	}

	ref, err := at.Ref(ctx, id+".back")
	if err != nil {
		at.Close()
		return nil, nil, err
	}

	return at, ref, nil
}

// Sweep removes the lines that have expired, and the snapshots of handoffs that have ended. It keeps the
// newest snapshot, because the next handoff shares objects with it. With all, Sweep ends every handoff and
// removes also the newest snapshot. Objects that stay on the remote until its next gc cannot be read then:
// their keys were in the refs and in a.
func (a *Area) Sweep(ctx context.Context, c *cache.Cache, all bool) error {
	if len(a.Sent) == 0 {
		return nil
	}
	at, err := a.open(c)
	if err != nil {
		return err
	}
	defer at.Close()

	newest := a.base()
	var kept []Sent
	for _, s := range a.Sent {
		ended, err := a.close(ctx, at, &s, all)
		if err != nil {
			return err
		}
		if !ended || s.ID == newest && !all {
			kept = append(kept, s)
			continue
		}

		names := []string{s.ID, s.ID + ".back"}
		for n := range s.Times {
			names = append(names, claimName(s.ID, n+1))
		}
		for _, name := range names {
			if err := at.Remove(ctx, name); err != nil && !errors.Is(err, backend.ErrNotFound) {
				return err
			}
		}
	}

	removed := len(kept) < len(a.Sent)
	if a.Sent = kept; removed {
		_, err = at.GC(ctx)
	}

	return err
}

// keptClaimed is how long the receiver of a claimed handoff can send changes back after the line expired.
const keptClaimed = 30 * 24 * time.Hour

// close removes the line of a handoff that has expired or was merged; with always, the line of any handoff.
// It reports whether the handoff has ended.
func (a *Area) close(ctx context.Context, at *remote.Remote, s *Sent, always bool) (ended bool, err error) {
	age := time.Since(s.Expires)
	if age < 0 && !s.Merged && !always {
		return false, nil
	}
	if !s.Closed {
		if err := at.Remove(ctx, s.ID+".line"); err != nil && !errors.Is(err, backend.ErrNotFound) {
			return false, err
		}
		s.Closed = true
	}
	if s.Merged || always || age > keptClaimed {
		return true, nil
	}

	_, err = at.Ref(ctx, claimName(s.ID, 1))
	if errors.Is(err, backend.ErrNotFound) {
		return true, nil
	}

	return false, err
}
