package handoff

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/google/uuid"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
)

// A Line is the line of text that the sending machine prints and the receiving machine reads.
type Line struct {
	URL string `json:"url"` // URL of the area
	ID  string `json:"id"`  // id of the handoff
	Key string `json:"key"` // key that decrypts the ref ID.line
}

var linePattern = pattern.New(`^(\S+)#([0-9a-f]{8}):(AGE-SECRET-KEY-1[0-9A-Z]+)$`)

// ParseLine reads a line; ok is false if text is no line.
func ParseLine(text string) (l Line, ok bool) {
	m := linePattern().FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return l, false
	}
	if _, err := age.ParseX25519Identity(m[3]); err != nil {
		return l, false
	}
	return Line{m[1], m[2], m[3]}, true
}

func (l Line) String() string { return l.URL + "#" + l.ID + ":" + l.Key }

// NewID returns the id of a new handoff.
func NewID() string { return uuid.NewString()[:8] }

// An Area is the record of a store about its handoffs to one remote.
type Area struct {
	URL      string        `json:"url"`
	Keys     []string      `json:"keys"`            // the data keys, the newest last
	FirstKey int           `json:"first,omitempty"` // index in Keys of the oldest key that the newest snapshot needs
	Handoffs []SentHandoff `json:"sent"`            // oldest first
	// LastUsed is the time of the last handoff.
	LastUsed time.Time `json:"used,omitzero"`
}

// A SentHandoff is a handoff as its sender records it.
type SentHandoff struct {
	Line
	MaxClaims int    `json:"times"` // number of receivers that may claim the line
	Fork      string `json:"fork"`  // the fork with the snapshot; the returned snapshot is restored there
	// Expires is the time at which the line expires.
	Expires     time.Time `json:"expires"`
	Uploaded    bool      `json:"sent,omitempty"`     // the remote has the snapshot
	LineRemoved bool      `json:"closed,omitempty"`   // the line was removed
	ReturnedID  string    `json:"returned,omitempty"` // id of the snapshot that the receiver sent back
	Merged      bool      `json:"merged,omitempty"`   // the returned snapshot was merged
}

// maxKeys is the largest number of keys in a line's ref. A handoff that needs more sends all objects again, encrypted
// to its own key.
const maxKeys = 256

// NewArea returns a new area on the remote at a URL.
func NewArea(remote string) (*Area, error) {
	u, err := url.Parse(remote)
	if err != nil {
		return nil, errs.New(errs.Invalid, "this is not the URL of a remote")
	}
	u.Path = path.Join("/", u.Path, "handoff", strings.ReplaceAll(uuid.NewString(), "-", ""))
	return &Area{URL: u.String()}, nil
}

// baseID returns the id of the newest handoff that is on the remote, "" if there is none. The next handoff shares its
// objects.
func (a *Area) baseID() string {
	for _, s := range slices.Backward(a.Handoffs) {
		if s.Uploaded {
			return s.ID
		}
	}
	return ""
}
