package control

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
)

// An outcome is the result or the error of a command, from which the answer is written later.
type outcome struct {
	result   any
	err      error
	duration time.Duration
}

// write writes the answer, one line of JSON: the fields of the result, or the error.
func (o *outcome) write(w io.Writer) error {
	if o.err != nil {
		return gitquote.Encoder(w).Encode(service.FailedAnswer(o.err))
	}

	var fields bytes.Buffer
	if err := gitquote.Encoder(&fields).Encode(shownResult(o.result)); err != nil {
		return err
	}

	inner := bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(fields.Bytes()), []byte("{")), []byte("}"))
	if len(inner) > 0 {
		inner = append(inner, ',')
	}

	_, err := fmt.Fprintf(w, "{\"ok\":true,%s\"ms\":%g}\n", inner, float64(o.duration.Microseconds())/1000)
	return err
}

// shownResult returns what an answer shows of a result. Of a snapshot it shows little: the file info@NAME has the other
// fields.
func shownResult(result any) any {
	i, ok := result.(info.Info)
	if !ok {
		return result
	}
	return struct {
		Name string `json:"name"`
		Seq  uint64 `json:"seq"`
	}{i.Name, i.Seq}
}

// isSmall reports whether the outcome of the operation of args can be kept without a charge for its memory.
func (o *outcome) isSmall(args any) bool {
	_, isInfo := o.result.(info.Info)
	return o.err != nil || isInfo || service.OpOf(args).ControlFiles.BriefResult != nil
}

// keepOutcome keeps the outcome of a command that was not written to a file, such as mkdir. Few programs read
// the answer to such a command. The outcome is small, see isSmall.
func (c *cache) keepOutcome(ws *snapshot.Workspace, name string, who actors.Caller, o *outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()

	d := c.dirLocked(ws)
	d.changedAt = now()
	if len(d.outcomes) >= c.limits.tenantNodes {
		clear(d.outcomes)
	}

	kept := &outcome{shownResult(o.result), o.err, o.duration}
	d.outcomes[nodeKey{name, anybody}], d.outcomes[nodeKey{name, int64(who.UID)}] = kept, kept
}

// renderOutcome writes the answer of a key from the outcome that was kept for the key. If there is no room
// for the answer, the key keeps its previous node.
func (c *cache) renderOutcome(ws *snapshot.Workspace, s nodeKey) {
	c.mu.Lock()
	o := c.dirLocked(ws).outcomes[s]
	c.mu.Unlock()
	if o == nil {
		return
	}

	w := c.newContentWriter(ws)
	if err := o.write(w); err != nil {
		w.discard()
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	text, d := w.releaseLocked(), c.dirLocked(ws)
	if d.outcomes[s] != o { // a later command has ended, so this outcome is no longer the one to keep
		return
	}

	f, _ := findFile(s.name)
	delete(d.outcomes, s)
	c.addLocked(d, s, &answerFile{inode: inode{mode: f.kind | f.mode}, content: text})
}
