package control

import (
	"bufio"
	"context"
	"io"
	"strings"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// render writes what a control file that is short shows now.
func (t *Tree) render(ws *snapshot.Workspace, name string) (w *contentWriter, err error) {
	w = t.newContent(ws)
	switch name {
	case statusName:
		err = t.renderStatus(w, ws)
	case policyName:
		err = encodeJSON(w, ws.Policy())
	case readmeName:
		_, err = io.WriteString(w, readme)
	}
	if err != nil {
		w.discard()
		return nil, err
	}
	return w, nil
}

// renderStatus leaves out what counts up by itself: a file that is another each time it
// is looked up is no good to read.
func (t *Tree) renderStatus(w io.Writer, ws *snapshot.Workspace) error {
	st, err := service.Do[service.Status](context.Background(), t.Service, Request{}.ask(ws), service.GetStatus{})
	if err != nil {
		return err
	}
	st.Requests, st.Uptime = nil, 0
	return encodeJSON(w, st)
}

// lookupList finds the list of the snapshots.
func (t *Tree) lookupList(ws *snapshot.Workspace, r Request) (Entry, error) {
	from := func() (source, error) { return source{a: ws.View(), changes: ws.Changes()}, nil }
	return t.lookupRendered(ws, listName, typeFile|0o444, r, from, func(ctx context.Context, w io.Writer) error {
		return renderList(ctx, w, ws)
	})
}

// renderList writes one line a snapshot.
func renderList(ctx context.Context, w io.Writer, ws *snapshot.Workspace) error {
	b, empty := bufio.NewWriter(w), true
	for i := range ws.Snapshots().Newest() {
		empty = false
		if _, err := b.WriteString(strings.Join(service.Row(i), "\t") + "\n"); err != nil {
			return err
		}
		if err := turns.Yield(ctx); err != nil {
			return err
		}
	}
	if empty {
		b.WriteString("no snapshots\n")
	}
	return b.Flush()
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
  echo "NAME" > push               send it to the remote that the policy names
  echo '{"op":"list"}' > call      anything that amberfs can do; the answer: cat call

  cat list                         all snapshots, newest first
  cat diff@A, diff@A..B            what changed since A, or from A to B, as a patch
  cat stat@A, stat@A..B            the same, one line a path
  cat info@A                       everything known about A
  cat log, status, policy          events, health, and what is kept for how long
  latest, undo, base               the newest one, the one before the last restore, the first

A command that fails returns the error to whoever wrote it, and says why in the
file it was written to: cat create. NAME may also be cp-NUMBER, or eight or more
digits of an id.
`
