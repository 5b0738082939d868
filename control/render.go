package control

import (
	"context"
	"strings"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// render returns what a control file says now. The caller owns the reference.
func (t *Tree) render(ws *snapshot.Workspace, name string) (*content, error) {
	switch name {
	case listName:
		return small(renderList(ws.List())), nil
	case statusName:
		b, err := t.renderStatus(ws)
		return small(b), err
	case policyName:
		b, err := renderJSON(ws.Policy())
		return small(b), err
	case readmeName:
		return small([]byte(readme)), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dirLocked(ws).results[name].retain(), nil
}

// renderStatus leaves out what counts up by itself: a file that is another each time it
// is looked up is no good to read.
func (t *Tree) renderStatus(ws *snapshot.Workspace) ([]byte, error) {
	st, err := service.Do[service.Status](context.Background(), t.Service, Request{}.ask(ws), service.GetStatus{})
	if err != nil {
		return nil, err
	}
	st.Requests, st.Uptime = nil, 0
	return renderJSON(st)
}

// renderList is one line a snapshot.
func renderList(infos []snapshot.Info) []byte {
	if len(infos) == 0 {
		return []byte("no snapshots\n")
	}
	var b strings.Builder
	for _, i := range infos {
		b.WriteString(strings.Join(service.Row(i), "\t") + "\n")
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
  echo "NAME" > push               send it to the remote that the policy names
  echo '{"op":"list"}' > call      anything that amberfs can do; the answer: cat call

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
