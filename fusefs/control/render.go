package control

import (
	"bufio"
	"context"
	_ "embed"
	"io"
	"strings"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// renderStatus writes the status without counters that change all the time: a file whose content changes with
// each lookup cannot be read.
func renderStatus(s *service.Service, w io.Writer, ws *snapshot.Workspace) error {
	out, err := s.Do(context.Background(), &service.Request{Workspace: ws}, service.GetStatus{})
	if err != nil {
		return err
	}

	st := out.(service.Status)
	st.Requests, st.StaleNames, st.Uptime = nil, 0, 0
	return gitquote.Encoder(w).Encode(st)
}

func (g *renderer) lookupList(ws *snapshot.Workspace, f file, r Request) (Entry, error) {
	findSource := func() source { return source{firstView: ws.View(), changeCount: ws.ChangeCount()} }
	return g.lookupRendered(ws, f.name, f.kind|f.mode, r, findSource, func(ctx context.Context, w io.Writer) error {
		return renderList(ctx, w, ws)
	})
}

func renderList(ctx context.Context, w io.Writer, ws *snapshot.Workspace) error {
	b, empty := bufio.NewWriter(w), true

	for i := range ws.Snapshots().NewestFirst() {
		empty = false
		if _, err := b.WriteString(strings.Join(service.SnapshotRow(i), "\t") + "\n"); err != nil {
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

func renderPolicy(_ *service.Service, w io.Writer, ws *snapshot.Workspace) error {
	return gitquote.Encoder(w).Encode(ws.Policy())
}

//go:embed readme.txt
var readme string

func renderReadme(_ *service.Service, w io.Writer, _ *snapshot.Workspace) error {
	_, err := io.WriteString(w, readme)
	return err
}
