package events

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	Created  = tree.Created
	Modified = tree.Modified
	Deleted  = tree.Deleted
	Renamed  = "renamed"
	Restored = "restored"
	Captured = "captured"
	// Restarted occurs in events of main only.
	Restarted = "restarted"
)

// An Action is a value of Event.Action. About describes the action. From and Detail describe the event's fields
// of the same names.
type Action struct{ Name, About, From, Detail string }

// Actions are all actions.
var Actions = []Action{
	{Created, "a path was created", "", ""},
	{Modified, "a path was modified", "", ""},
	{Deleted, "a path was deleted", "", ""},
	{Renamed, "a path was renamed", "the old path", ""},
	{Restored, "a restore or merge changed a path", "the snapshot or fork", "created, modified or deleted"},
	{Captured, "a snapshot was taken", "the snapshot", ""},
	{"removed", "a snapshot was deleted", "the snapshot", ""},
	{"returned", "an undo restored deleted snapshots", "the snapshots", ""},
	{"forgot", "contents were removed from snapshots", "the number of the receipt", ""},
	{"expired", "a snapshot was deleted by the policy", "the snapshot", ""},
	{"renamed-snapshot", "a snapshot was renamed", "the old name", "the new name"},
	{"forked", "a fork was created", "the snapshot", "the fork"},
	{"renamed-fork", "a fork was renamed", "the old name", "the new name"},
	{"fork-deleted", "a fork was deleted", "the fork", "the snapshot of its last state"},
	{"merged", "a fork was merged", "the fork", ""},
	{"refreshed", "changes of the directory came into the workspace", "the snapshot of the state before", ""},
	{"policy", "the policy changed", "", ""},
	{Restarted, "the daemon was replaced", "the reason", "the pause"},
	{"pushed", "a snapshot was pushed", "the snapshot", "the remote"},
	{"pulled", "a snapshot was pulled", "the snapshot", "the remote"},
}

// ActionNames returns the names of Actions.
func ActionNames() []string {
	names := make([]string, len(Actions))
	for i, a := range Actions {
		names[i] = a.Name
	}
	return names
}

// MaxPathBytes is the largest size of a path in an event. Without this limit, the paths of a chain of directories
// would take space quadratic in the length of the chain.
const MaxPathBytes = 1024

// shortenPath returns a path of at most MaxPathBytes unchanged. Of a longer path it returns "…/" and the end.
func shortenPath(path string) string {
	if len(path) <= MaxPathBytes {
		return path
	}
	path = path[len(path)-MaxPathBytes:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		path = path[i+1:]
	}

	return "…/" + path
}

// An Event is a change of a path, a snapshot or a fork. Its JSON form is stable for scripts: fields may be added,
// but the meaning of a field does not change.
type Event struct {
	// Record sets Seq, and Time if it is zero.
	Seq    uint64    `json:"seq" jsonschema:"its number in the workspace; it only grows, with gaps"`
	Time   time.Time `json:"time" jsonschema:"when it began"`
	Action string    `json:"action"`
	// Bytes of Path that are not UTF-8 become U+FFFD.
	Path    string `json:"path" jsonschema:"relative to the workspace; the end of a path above 1024 bytes, after …/"`
	From    string `json:"from,omitempty" jsonschema:"depends on the action"`
	Size    int64  `json:"size" jsonschema:"bytes after the event"`
	UID     uint32 `json:"uid"`
	PID     uint32 `json:"pid"`
	Command string `json:"command"`
	Actor   string `json:"actor,omitempty" jsonschema:"the actor of the change"`
	Detail  string `json:"detail,omitempty" jsonschema:"depends on the action"`

	// Workspace is the view of the workspace.
	Workspace uint32 `json:"-"`
	// Node identifies the changed file, also after a rename. Events of one node are
	// coalesced, except events with node 0.
	Node uint64 `json:"-"`
}

// addToCounts adds an event with the given action to the counts of a workspace.
func addToCounts(c *info.Counts, action string) {
	switch action {
	case Created:
		c.Created++
	case Modified:
		c.Modified++
	case Deleted:
		c.Deleted++
	case Restored:
		c.Restored++
	}
}

// appendLine appends the JSON line of an event to b.
func appendLine(b []byte, e *Event) []byte {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e) // an event has only numbers, strings and a valid time
	return append(b, gitquote.EscapeJSON(w.Bytes())...)
}

// parseHead returns the number and the action of a line of appendLine, without
// decoding the rest. ok is false for other text.
func parseHead(line []byte) (seq uint64, action string, ok bool) {
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

const (
	maxNameAge     = 20 * time.Millisecond // how long a cached name is used: exec may change the name
	maxCachedNames = 4096                  // number of cached names
)

// processNames caches the names of processes. A request has the id of a thread. The thread's process is looked up
// while the thread waits for the answer to its request.
type processNames struct {
	mu       sync.Mutex
	byThread map[uint32]processName // by the id of a thread
}

type processName struct {
	pid        uint32 // the process of the thread
	name       string
	lookedUpAt time.Time
}

// lookUp returns the process of the thread tid, and the name of that process. If the process has exited, it
// returns the cached result.
func (c *processNames) lookUp(tid uint32, now time.Time) processName {
	if tid == 0 {
		return processName{}
	}
	c.mu.Lock()
	p, ok := c.byThread[tid]
	c.mu.Unlock()
	if ok && now.Sub(p.lookedUpAt) < maxNameAge {
		return p
	}

	found := processName{pid: uint32(process.ProcessOf(int(tid)))}
	found.name = process.ProgramName(int(found.pid))
	if found.name == "" && ok { // the process has exited
		found.pid, found.name = p.pid, p.name
	}

	found.lookedUpAt = now
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.byThread == nil || len(c.byThread) >= maxCachedNames {
		c.byThread = map[uint32]processName{}
	}

	c.byThread[tid] = found

	return found
}
