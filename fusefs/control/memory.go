package control

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
)

// A memory outlives the daemon: the next one finds the nodes that the kernel has, so that
// what is open goes on. It is a file in memory with a head and two regions, one of
// which is in use: records are appended to it, one a change of a node. When it is full, the
// nodes as they are go to the other one.
type memory struct {
	file   *os.File
	region uint64
	end    int64 // in the region
	full   int64 // the end at which the nodes go to the other region
}

const (
	regionSize = 64 << 20
	minFull    = 1 << 20
	// maxKept is how long a content is at most that is kept: as long as a fork may have one.
	// maxCompacted is how much of a region nodes may take that were just written to it. What is
	// not kept is ESTALE after a crash.
	maxKept      = forkBytes
	maxCompacted = regionSize / 2
)

// A record is a node as it was when the record was written: a line of JSON, which the
// content follows.
type record struct {
	Number  uint64         `json:"number"`
	View    uint32         `json:"view"` // of the workspace
	Name    string         `json:"name"`
	User    int64          `json:"user"`
	Kind    nodeKind       `json:"kind"`
	Mode    uint32         `json:"mode"`
	Owner   *actors.Caller `json:"owner,omitempty"`
	Mtime   int64          `json:"mtime"`
	Begin   int64          `json:"begin,omitempty"`
	Content int64          `json:"content,omitempty"` // how many bytes follow the record
	Partial []partial      `json:"partial,omitempty"`
	Log     bool           `json:"log,omitempty"`
	LogSize int64          `json:"log_size,omitempty"`
	Removed int64          `json:"removed,omitempty"` // of the log, see events.Reader
	Named   bool           `json:"named,omitempty"`   // it is the newest of its name
	Gone    bool           `json:"gone,omitempty"`
}

func (n *node) recordLocked() (line, content []byte) {
	r := record{
		Number: n.id.Ino() &^ kindFile, View: n.dir.ws.View(), Name: n.slot.name, User: n.slot.user, Kind: n.kind, Mode: n.mode,
		Owner: n.owner, Mtime: n.mtime, Begin: n.begin, Partial: n.partials, Named: n.dir.current[n.slot] == n, Gone: n.place == nil,
	}
	switch c := n.shown(); {
	case r.Gone:
	case n.log != nil:
		r.Log, r.LogSize, r.Removed = true, n.logSize, n.log.Removed()
	case c.Size() <= maxKept:
		content = c.all()
		r.Content = c.Size()
	default:
		r.Gone = true // with its content
	}
	line, _ = json.Marshal(r) // it has only numbers and text
	return append(line, '\n'), content
}

// keepLocked has the memory keep a node as it is.
func (t *Tree) keepLocked(n *node) {
	m := &t.mu.memory
	if m.file == nil {
		return
	}
	if line, content := n.recordLocked(); m.end+int64(len(line)+len(content)) <= m.full {
		m.append(line, content)
		return
	}
	t.compactLocked()
}

// append writes to the region, the line last: a daemon that is killed meanwhile leaves no line.
// If there is no room, the node is ESTALE after a crash.
func (m *memory) append(line, content []byte) {
	at := m.at(m.region) + m.end
	if _, err := m.file.WriteAt(content, at+int64(len(line))); err != nil {
		return
	}
	if _, err := m.file.WriteAt(line, at); err == nil {
		m.end += int64(len(line) + len(content))
	}
}

func (m *memory) at(region uint64) int64 { return page + int64(region)*regionSize }

// compactLocked writes the nodes as they are to the other region, the newest if all are too many.
func (t *Tree) compactLocked() {
	m := &t.mu.memory
	next := memory{file: m.file, region: 1 - m.region}
	if next.empty() != nil {
		return
	}
	for _, n := range slices.Backward(t.nodesLocked()) {
		if line, content := n.recordLocked(); next.end+int64(len(line)+len(content)) <= maxCompacted {
			next.append(line, content)
		}
	}
	next.full = min(regionSize, max(minFull, 2*next.end))
	old := *m
	*m = next
	m.setHead(headRegion, m.region)
	_ = old.empty()
}

// empty gives the pages of the region back.
func (m *memory) empty() error {
	return unix.Fallocate(int(m.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, m.at(m.region), regionSize)
}

// nodesLocked are all nodes, the oldest first.
func (t *Tree) nodesLocked() []*node {
	return slices.SortedFunc(maps.Values(t.mu.nodes), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
}

// The head has the number of the newest node, which is never used again, and the region in use.
const (
	headNewest = 0
	headRegion = 1
)

func (m *memory) setHead(field int64, v uint64) {
	if m.file == nil {
		return
	}
	_, _ = m.file.WriteAt(binary.LittleEndian.AppendUint64(nil, v), 8*field)
}

func (m *memory) head(field int64) uint64 {
	var b [8]byte
	_, _ = m.file.ReadAt(b[:], 8*field)
	return binary.LittleEndian.Uint64(b[:])
}

// remember takes over what the daemon before had in memory.
func (t *Tree) remember(file *os.File) {
	if file == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := memory{file: file}
	t.mu.last, m.region = m.head(headNewest), m.head(headRegion)
	records := bufio.NewReader(io.NewSectionReader(file, m.at(m.region), regionSize))
	for {
		if next, err := records.Peek(1); err != nil || next[0] != '{' { // nothing was written here
			break
		}
		var r record
		line, err := records.ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &r) != nil { // it was not written to its end
			break
		}
		content := make([]byte, r.Content)
		if _, err := io.ReadFull(records, content); err != nil {
			break
		}
		t.takeLocked(&r, content)
	}
	for _, n := range t.nodesLocked() {
		n.usedLocked() // the newest counts as the last one
	}
	t.mu.memory = m
	t.compactLocked()
}

// takeLocked does what a record says. The kernel may have the node.
func (t *Tree) takeLocked(r *record, content []byte) {
	ws, ok := t.store.Workspace(r.View)
	if !ok {
		return
	}
	id := fileID(r.Number)
	if old := t.mu.nodes[id]; old != nil {
		t.removeLocked(old)
	}
	if r.Gone {
		return
	}
	n := &node{
		id: id, dir: t.dirLocked(ws), slot: slot{r.Name, r.User}, kind: r.Kind, mode: r.Mode, owner: r.Owner, mtime: r.Mtime,
		begin: r.Begin, partials: r.Partial, logSize: r.LogSize, cached: true, kernelRefs: 1,
	}
	if len(content) > 0 {
		n.content = small(content)
	}
	if r.Log {
		n.log = t.Service.Events.Reader(r.View, r.Removed)
	}
	t.mu.nodes[id] = n
	n.place = n.dir.tenant.nodes.PushFront(n)
	if r.Named {
		n.dir.current[n.slot] = n
	}
	t.chargeLocked(n.dir.tenant, n.sizeLocked())
	n.size = n.sizeLocked()
}
