package events

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// The actions.
const (
	Created  = "created"
	Modified = "modified"
	Deleted  = "deleted"
	Renamed  = "renamed"
	Restored = "restored"
	Captured = "captured"
)

// Actions are all that an event can have.
var Actions = []string{
	Created, Modified, Deleted, Renamed, Restored, Captured, "removed", "renamed-snapshot", "expired",
	"forked", "fork-ended", "promoted", "policy", "pushed", "pulled",
}

// MaxPath is how many bytes of a path an event has: else those of a chain of
// directories would cost the square of its length.
const MaxPath = 1024

// shorten is a path, or its end.
func shorten(path string) string {
	if len(path) <= MaxPath {
		return path
	}
	path = path[len(path)-MaxPath:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		path = path[i+1:]
	}
	return "…/" + path
}

// An Event is something that happened to a path. The JSON form is a promise to
// scripts: fields may be added, none changes its meaning.
type Event struct {
	// Seq counts the events of a workspace, from 1. Record gives it.
	Seq uint64 `json:"seq"`
	// Time is when it began; Record sets it if it is zero.
	Time   time.Time `json:"time"`
	Action string    `json:"action"`
	// Path is relative to the workspace, "." for all of it. Bytes that are no
	// UTF-8 become U+FFFD. Of one of more than MaxPath bytes it is the end, after
	// "…/".
	Path string `json:"path"`
	// From is where it was renamed from, or the snapshot that was restored or
	// captured.
	From string `json:"from,omitempty"`
	Size int64  `json:"size"` // bytes, after the event
	UID  uint32 `json:"uid"`
	// PID is the process that did it, Command its name (proc(5), comm).
	PID     uint32 `json:"pid"`
	Command string `json:"command"`
	// Detail says more: what a restore did to the path.
	Detail string `json:"detail,omitempty"`

	// Workspace is the view number of the workspace.
	Workspace uint32 `json:"-"`
	// Node identifies what it happened to, whatever its path; in a rename, what
	// was moved. Events with the same node are coalesced; 0 is never coalesced.
	Node uint64 `json:"-"`
}

// Counts are numbers of events, by action.
type Counts struct {
	Created  int64 `json:"created"`
	Modified int64 `json:"modified"`
	Deleted  int64 `json:"deleted"`
	Renamed  int64 `json:"renamed"`
	Restored int64 `json:"restored"`
}

func (c *Counts) add(action string) {
	switch action {
	case Created:
		c.Created++
	case Modified:
		c.Modified++
	case Deleted:
		c.Deleted++
	case Renamed:
		c.Renamed++
	case Restored:
		c.Restored++
	}
}

func (c *Counts) plus(o Counts) {
	c.Created += o.Created
	c.Modified += o.Modified
	c.Deleted += o.Deleted
	c.Renamed += o.Renamed
	c.Restored += o.Restored
}

// appendLine adds the event's line to b.
func appendLine(b []byte, e *Event) ([]byte, error) {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	err := enc.Encode(e)
	return append(b, gitquote.JSON(w.Bytes())...), err
}

// head reads number and action from a line as appendLine writes it, without
// decoding all of it. It is false for anything else.
func head(line []byte) (seq uint64, action string, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return 0, "", false
	}
	i := 0
	for ; i < len(rest) && i < 20 && rest[i] >= '0' && rest[i] <= '9'; i++ {
		seq = seq*10 + uint64(rest[i]-'0')
	}
	_, rest, ok = bytes.Cut(rest, []byte(`,"action":"`))
	if !ok || seq == 0 {
		return 0, "", false
	}
	name, _, ok := bytes.Cut(rest, []byte(`"`))
	return seq, string(name), ok
}
