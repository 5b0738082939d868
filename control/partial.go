package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A partial is the beginning of a command that comes in several writes of one process.
type partial struct {
	node     *node
	uid, pid uint32
	line     []byte
}

// assemble returns the command that ends with data; nil if it does not end yet. What
// one process wrote never becomes a part of what another one does.
func (t *Tree) assemble(n *node, data []byte, who live.Caller) []byte {
	if !t.anyPartial(n) && !unfinished(data, len(data)) {
		return data
	}
	pid := uint32(process.Of(int(who.PID))) // a program may write with any of its threads
	t.mu.Lock()
	defer t.mu.Unlock()
	line := append(n.dir.tenant.takeLocked(n, who.UID, pid), data...)
	if len(line) > maxCommand || !unfinished(line, len(data)) {
		return line
	}
	n.dir.tenant.keepLocked(&partial{n, who.UID, pid, line})
	return nil
}

// dropPartial forgets what a process has begun to write to a file that it truncates.
func (t *Tree) dropPartial(n *node, who live.Caller) {
	if !t.anyPartial(n) {
		return
	}
	pid := uint32(process.Of(int(who.PID)))
	t.mu.Lock()
	defer t.mu.Unlock()
	n.dir.tenant.takeLocked(n, who.UID, pid)
}

func (t *Tree) anyPartial(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(n.dir.tenant.partials, func(p *partial) bool { return p.node == n })
}

func (k *tenant) takeLocked(n *node, uid, pid uint32) []byte {
	for _, p := range k.partials {
		if p.node == n && p.uid == uid && p.pid == pid {
			k.partials = without(k.partials, p)
			return p.line
		}
	}
	return nil
}

func (k *tenant) keepLocked(p *partial) {
	k.partials = append(k.partials, p)
	total := 0
	for _, p := range k.partials {
		total += len(p.line)
	}
	for total > maxPartial {
		total -= len(k.partials[0].line)
		k.partials = k.partials[1:]
	}
}

// unfinished reports whether a line is only the beginning of a command, whose last
// write brought so many bytes. A program that writes through a buffer hands over its
// first blocks full. JSON has not ended before its last brace, but a line of it that
// is ended without one is wrong rather than unfinished.
func unfinished(line []byte, wrote int) bool {
	full := wrote >= 1024 && wrote%1024 == 0
	ended := bytes.HasSuffix(line, []byte("\n"))
	if isJSON(line) {
		return endsEarly(line) && (full || !ended)
	}
	return full && !ended
}

func isJSON(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r\n"), []byte("{")) }

// endsEarly reports whether a line is the beginning of JSON.
func endsEarly(line []byte) bool {
	var v json.RawMessage
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&v)
	return errors.Is(err, io.ErrUnexpectedEOF)
}
