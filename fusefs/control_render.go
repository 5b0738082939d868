package fusefs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// render returns what a control file says now.
func (c *control) render(ws *snapshot.Workspace, name string) ([]byte, error) {
	switch name {
	case listName:
		return renderList(ws.List()), nil
	case statusName:
		if c.fs.opts.Control.Status != nil {
			return c.fs.opts.Control.Status(ws)
		}
		return renderJSON(ws.Status())
	case policyName:
		return renderJSON(ws.Policy())
	case readmeName:
		return []byte(readme), nil
	case logName:
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.results[fileKey{ws.View(), name}], nil
}

// A subject tells what a generated diff compares, so that it is made once: the
// views of two snapshots, or of one and how often the workspace had changed.
type subject struct {
	a, b    uint32
	changes uint64
}

// subject resolves the names in a query. What is not worth remembering has the
// zero subject.
func (c *control) subject(ws *snapshot.Workspace, q query) (subject, error) {
	a, err := ws.Find(q.a)
	if err != nil || q.what == "info" {
		return subject{}, err
	}
	if c.fs.opts.Control.Diff == nil {
		return subject{}, live.ErrNotExist
	}
	if q.b != "" {
		b, err := ws.Find(q.b)
		return subject{a: a.View, b: b.View}, err
	}
	var changes uint64
	err = c.fs.forest.View(func(tx *live.Tx) error {
		changes = tx.Changed(ws.View())
		return nil
	})
	return subject{a: a.View, b: ws.View(), changes: changes}, err
}

// renderQuery returns what a generated file like diff@A says now.
func (c *control) renderQuery(ctx context.Context, ws *snapshot.Workspace, q query) ([]byte, error) {
	if q.what == "info" {
		info, err := ws.Find(q.a)
		if err != nil {
			return nil, err
		}
		return renderJSON(info)
	}
	return c.fs.opts.Control.Diff(ctx, ws, q.a, q.b, q.what == "stat")
}

// renderJSON is one line of JSON, with < and > as they are: people read it too.
func renderJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	return b.Bytes(), nil
}

// oneLine keeps a message from looking like more than one entry.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ")

// renderList is one line a snapshot: name, 12 digits of the id, time, message.
func renderList(infos []snapshot.Info) []byte {
	if len(infos) == 0 {
		return []byte("no snapshots\n")
	}
	var b strings.Builder
	for _, i := range infos {
		id := "-"
		if len(i.ID) >= 12 {
			id = i.ID[:12]
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", i.Name, id, i.Created.Format(time.RFC3339), oneLine.Replace(i.Message))
	}
	return []byte(b.String())
}

const readme = `This directory holds the snapshots of the workspace it is in.

  mkdir NAME                       make a snapshot
  echo "NAME message" > create     the same, with a message; an empty line picks a name
  ls NAME, diff -r NAME ..         look at one: it is an ordinary, read-only directory
  mv restore restore@NAME          make the workspace equal to it
  mv restore restore@undo          take the last restore back
  echo "NAME path..." > restore    bring only some files or directories back
  mv NAME OTHER, rmdir NAME        rename or delete a snapshot
  echo "NAME FORK" > fork          a writable copy in ../.forks/FORK
  echo "NAME" > export             write it as a commit to the store's git repository

  cat list                         all snapshots, newest first
  cat diff@A, diff@A..B            what changed since A, or from A to B, as a patch
  cat stat@A, stat@A..B            the same, one line a path
  cat info@A                       everything known about A
  cat log, status, policy          events, health, and what is kept for how long
  latest, undo, origin             the newest one, the one before the last restore, the first

A command that fails returns the error to whoever wrote it, and says why in the
file it was written to: cat create. NAME may also be cp-NUMBER, or eight or more
digits of an id.
`
