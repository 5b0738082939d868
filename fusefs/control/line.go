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

// maxCommandBytes is the size of the longest command.
const maxCommandBytes = 1 << 20

// An input has the beginnings of the commands that are being written to a file. cache.mu guards it.
type input struct {
	partials      []partialCommand
	runningCount  int   // the number of commands that run
	pagesCached   bool  // the kernel may have pages of the file
	unendedOffset int64 // the offset of the end of the last command if it had no newline, else 0
}

// sizeLocked returns the bytes to charge for in.partials.
func (in *input) sizeLocked() (size int64) {
	for _, p := range in.partials {
		size += partialOverheadBytes + int64(len(p.line))
	}
	return size
}

// A partialCommand is the beginning of a command that one process writes in several pieces. Its bytes are charged to
// the node of the file.
type partialCommand struct {
	uid, pid uint32
	line     []byte
}

// partialOverheadBytes is about the memory of a partialCommand without its line.
const partialOverheadBytes = 256

// assembleCommand returns the command that ends with data, or nil if the command continues. Pieces of different
// processes are never joined.
func (c *commands) assembleCommand(n node, data []byte, who actors.Caller) []byte {
	if !c.hasPartial(n) && !isUnfinished(data, len(data)) {
		return data
	}
	pid := uint32(process.ProcessOf(int(who.PID))) // pieces may come from several threads of a process
	c.cache.mu.Lock()
	line := append(n.input().takePartialLocked(who.UID, pid), data...)
	c.cache.mu.Unlock()
	done := len(line) > maxCommandBytes || !isUnfinished(line, len(data))
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()

	if !done {
		n.input().partials = append(n.input().partials, partialCommand{who.UID, pid, line})
	}

	c.cache.rechargeLocked(n)
	if done {
		return line
	}

	return nil
}

// dropPartial removes the partial command of a process that truncates the file.
func (c *commands) dropPartial(n node, who actors.Caller) {
	if !c.hasPartial(n) {
		return
	}
	pid := uint32(process.ProcessOf(int(who.PID)))
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()

	n.input().takePartialLocked(who.UID, pid)
	c.cache.rechargeLocked(n)
}

func (c *commands) hasPartial(n node) bool {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	return len(n.input().partials) > 0
}

// takePartialLocked removes the partial command of a process, and returns its line.
func (in *input) takePartialLocked(uid, pid uint32) []byte {
	i := slices.IndexFunc(in.partials, func(p partialCommand) bool { return p.uid == uid && p.pid == pid })
	if i < 0 {
		return nil
	}

	line := in.partials[i].line
	in.partials = slices.Delete(in.partials, i, i+1)

	return line
}

// isUnfinished reports whether a line is only the beginning of a command. writeSize is the size in bytes of
// the write that ended the line. A program that writes through a buffer writes full blocks first, of a
// multiple of 1024 bytes. So a command that is not JSON is unfinished if the write was such a block, and did
// not end with a newline. JSON is unfinished if its last brace is missing, and the write was such a block or
// did not end with a newline. Other JSON without its last brace is malformed, and not unfinished.
func isUnfinished(line []byte, writeSize int) bool {
	full := writeSize >= 1024 && writeSize%1024 == 0
	ended := bytes.HasSuffix(line, []byte("\n"))
	if isJSON(line) {
		return isIncomplete(line) && (full || !ended)
	}
	return full && !ended
}

func isJSON(line []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r\n"), []byte("{")) }

// isIncomplete reports whether JSON ends before its last brace.
func isIncomplete(line []byte) bool {
	var v json.RawMessage
	err := json.NewDecoder(bytes.NewReader(line)).Decode(&v)
	return errors.Is(err, io.ErrUnexpectedEOF)
}
