package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/snapshot/actors"
)

// maxCommand is how long what is written to a control file may be, in bytes.
const maxCommand = 1 << 20

// A partial is the beginning of a command that one process writes in several pieces. It
// is a part of the file that it was written to.
type partial struct {
	uid, pid uint32
	line     []byte
}

// partialCost is what a partial takes beside its line, in bytes.
const partialCost = 256

// assemble returns the command that ends with data; nil if it does not end yet. What
// one process wrote never becomes a part of what another one does.
func (t *Tree) assemble(n *node, data []byte, who actors.Caller) []byte {
	if !t.anyPartial(n) && !unfinished(data, len(data)) {
		return data
	}
	pid := uint32(process.Of(int(who.PID))) // a program may write with any of its threads
	t.mu.Lock()
	line := append(n.takePartialLocked(who.UID, pid), data...)
	t.mu.Unlock()
	done := len(line) > maxCommand || !unfinished(line, len(data))
	t.mu.Lock()
	defer t.mu.Unlock()
	if !done {
		n.partials = append(n.partials, partial{who.UID, pid, line})
	}
	t.resizeLocked(n)
	if done {
		return line
	}
	return nil
}

// dropPartial forgets what a process has begun to write to a file that it truncates.
func (t *Tree) dropPartial(n *node, who actors.Caller) {
	if !t.anyPartial(n) {
		return
	}
	pid := uint32(process.Of(int(who.PID)))
	t.mu.Lock()
	defer t.mu.Unlock()
	n.takePartialLocked(who.UID, pid)
	t.resizeLocked(n)
}

func (t *Tree) anyPartial(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(n.partials) > 0
}

func (n *node) takePartialLocked(uid, pid uint32) []byte {
	i := slices.IndexFunc(n.partials, func(p partial) bool { return p.uid == uid && p.pid == pid })
	if i < 0 {
		return nil
	}
	line := n.partials[i].line
	n.partials = slices.Delete(n.partials, i, i+1)
	return line
}

// unfinished reports whether a line is only the beginning of a command, whose last
// write brought so many bytes. A program that writes through a buffer hands over its
// first blocks full. JSON ends with its last brace. A line
// that ends before its closing brace is an error, not a partial write.
func unfinished(line []byte, wrote int) bool {
	full := wrote >= 1024 && wrote%1024 == 0
	ended := bytes.HasSuffix(line, []byte("\n"))
	if isJSON(line) {
		return endsEarly(line) && (full || !ended)
	}
	return full && !ended
}

func isJSON(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r\n"), []byte("{")) }

func endsEarly(line []byte) bool {
	var v json.RawMessage
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&v)
	return errors.Is(err, io.ErrUnexpectedEOF)
}
