package fusefs

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// write runs a command. There is no open file to collect it in, as neither
// OPEN nor FLUSH reach us, so each write is a whole command; its error is that
// of write(2). Where in the file it goes does not matter.
func (c *control) write(cancel <-chan struct{}, id live.NodeID, data []byte, off int64, h *fuse.InHeader) (uint32, fuse.Status) {
	n, err := c.get(id)
	if err != nil {
		return 0, c.fs.status("write", id, err)
	}
	if n.scratch {
		return c.writeScratch(n, data, off)
	}
	if n.mode&0o200 == 0 {
		return 0, fuse.EPERM
	}
	c.mu.Lock()
	line := append(n.partial[:len(n.partial):len(n.partial)], data...)
	n.partial = nil
	wait := unfinished(data) && len(line) <= maxCommand
	if wait {
		n.partial = line
	}
	cached := n.cached
	n.cached = false
	c.mu.Unlock()
	if cached {
		c.fs.notify.dropPages(n.id)
	}
	if wait {
		return uint32(len(data)), fuse.OK
	}
	ctx, stop := interruptible(cancel, h)
	defer stop()
	err = c.run(ctx, n.ws, n.key.name, string(line), caller(h))
	c.show(n)
	if err != nil {
		return 0, fuse.Status(errno(err))
	}
	return uint32(len(data)), fuse.OK
}

// show makes a file that a command was written to say what came of it, for
// whoever reads on with the same descriptor. Its name gets a new node.
func (c *control) show(n *node) {
	content, err := c.render(n.ws, n.key.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		n.content = content
	}
	n.mtime = timeNow()
	if c.mu.current[n.key] == n {
		delete(c.mu.current, n.key)
	}
}

func (c *control) writeScratch(n *node, data []byte, off int64) (uint32, fuse.Status) {
	if off < 0 || off+int64(len(data)) > maxScratch {
		return 0, fuse.Status(syscall.EFBIG)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := int(off) + len(data); end > len(n.content) {
		n.content = resize(n.content, end)
	}
	copy(n.content[off:], data)
	n.mtime = timeNow()
	return uint32(len(data)), fuse.OK
}

// A result is the line of JSON that a control file shows after a command.
type result struct {
	OK       bool    `json:"ok"`
	Error    string  `json:"error,omitempty"`
	Name     string  `json:"name,omitempty"`
	Seq      uint64  `json:"seq,omitempty"`
	Snapshot string  `json:"snapshot,omitempty"`
	Fork     string  `json:"fork,omitempty"`
	Changed  *int    `json:"changed,omitempty"`
	Undo     string  `json:"undo,omitempty"`
	MS       float64 `json:"ms,omitempty"`
}

// run carries out what was written to a control file and keeps the result for
// whoever reads the file next.
func (c *control) run(ctx context.Context, ws *snapshot.Workspace, name, line string, who live.Caller) error {
	began := time.Now()
	var r result
	var raw []byte
	var err error
	switch name {
	case createName:
		r, err = c.runCreate(ws, line, who)
	case restoreName:
		r, err = c.runRestoreLine(ws, line, who)
	case forkName:
		r, err = c.runFork(ws, line, who)
	case exportName:
		raw, err = c.runExport(ctx, ws, line, who)
	case policyName:
		var p snapshot.Policy
		if p, err = snapshot.ParsePolicy([]byte(line)); err == nil {
			err = ws.SetPolicy(p, who)
		}
	default:
		err = live.ErrPerm
	}
	c.finish(ws, name, r, raw, err, began)
	return err
}

// finish records how a command ended.
func (c *control) finish(ws *snapshot.Workspace, name string, r result, raw []byte, err error, began time.Time) {
	if err != nil {
		r, raw = result{Error: err.Error()}, nil
		c.fs.log.Warn("control command failed", "workspace", ws.Name(), "file", name, "err", err)
	} else {
		r.OK = true
		r.MS = float64(time.Since(began).Microseconds()) / 1000
	}
	if raw == nil {
		raw, _ = renderJSON(r) // a struct of strings and numbers: cannot fail
	} else if n := len(raw); n == 0 || raw[n-1] != '\n' {
		raw = append(raw, '\n')
	}
	c.mu.Lock()
	switch {
	case name != policyName:
		c.mu.results[fileKey{ws.View(), name}] = raw
	case err != nil:
		// The file itself goes on showing the policy.
		c.mu.results[fileKey{ws.View(), createName}] = raw
	}
	c.mu.touched[ws.View()] = timeNow()
	c.mu.Unlock()
}

func (c *control) runCreate(ws *snapshot.Workspace, line string, who live.Caller) (result, error) {
	name, message := splitLine(line)
	info, err := ws.Capture(context.Background(), snapshot.CaptureOptions{
		Name: name, Message: message, Origin: "manual", Caller: who, Command: commandOf(who),
	})
	if err != nil {
		return result{}, err
	}
	return result{Name: info.Name, Seq: info.Seq}, nil
}

func (c *control) runRestoreLine(ws *snapshot.Workspace, line string, who live.Caller) (result, error) {
	fields, err := splitFields(line)
	if err != nil {
		return result{}, err
	}
	if len(fields) == 0 {
		return result{}, fmt.Errorf("name the snapshot to restore, as in: echo NAME > restore: %w", live.ErrInvalid)
	}
	return c.runRestore(ws, fields[0], fields[1:], who)
}

// runRestore restores the whole workspace, or only some paths. When it returns
// the kernel has forgotten what is no longer so: the store calls the notifier,
// which waits.
func (c *control) runRestore(ws *snapshot.Workspace, name string, paths []string, who live.Caller) (result, error) {
	r, err := ws.Restore(context.Background(), snapshot.RestoreOptions{
		Name: name, Paths: paths, Caller: who, Command: commandOf(who),
	})
	if err != nil {
		return result{}, err
	}
	return result{Snapshot: r.Snapshot, Changed: &r.Changed, Undo: r.Undo}, nil
}

func (c *control) runFork(ws *snapshot.Workspace, line string, who live.Caller) (result, error) {
	fields, err := splitFields(line)
	if err != nil {
		return result{}, err
	}
	if len(fields) != 2 {
		return result{}, fmt.Errorf("name a snapshot and the fork, as in: echo \"SNAPSHOT FORK\" > fork: %w", live.ErrInvalid)
	}
	fork, err := ws.Fork(context.Background(), fields[0], fields[1], who)
	if err != nil {
		return result{}, err
	}
	return result{Snapshot: fields[0], Fork: fork.Name()}, nil
}

func (c *control) runExport(ctx context.Context, ws *snapshot.Workspace, line string, who live.Caller) ([]byte, error) {
	if c.fs.opts.Control.Export == nil {
		return nil, fmt.Errorf("this mount cannot export: %w", live.ErrNotSupported)
	}
	return c.fs.opts.Control.Export(ctx, ws, strings.TrimSpace(line), who)
}

// commandOf returns the name of the program that asks, "" when it is gone or
// hidden from us.
func commandOf(who live.Caller) string {
	if who.PID == 0 {
		return ""
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", who.PID))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
