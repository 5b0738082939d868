package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// change does something to files, and says what; "" if it could not.
func (e editor) change(rnd *rand.Rand) string {
	names := []string{"a", "b", "c", "d", "e"}
	if e.dirs {
		names = []string{"a", "b", "x/a", "x/b", "y/a", "y/b", "y/z/a"}
	}
	p, q := names[rnd.IntN(len(names))], names[rnd.IntN(len(names))]
	what := []string{"create", "create", "line", "line", "save", "split", "ln", "ln", "mv", "mv", "rm", "chmod"}[rnd.IntN(12)]
	f := e.forest()
	if e.dirs && rnd.IntN(8) == 0 {
		return e.changeDirectory(rnd)
	}
	root, p, err := e.parent(p)
	if err != nil {
		return ""
	}
	other, q, err := e.parent(q)
	if err != nil {
		return ""
	}
	text := "1\n2\n3\n4\n"
	at, err := f.Lookup(root, p)
	if err == nil {
		b := make([]byte, at.Size)
		if _, err = f.ReadAt(at.ID, b, 0); err == nil {
			text = string(b)
		}
	}
	if what == "line" || what == "save" {
		lines := strings.SplitAfter(text, "\n")
		lines[rnd.IntN(4)] = fmt.Sprintf("%d\n", rnd.IntN(90)+10)
		text = strings.Join(lines, "")
	}
	mode := uint32(unix.S_IFREG | 0o600 | rnd.IntN(4))
	switch {
	case (what == "create") == (err == nil), what == "create" && rnd.IntN(3) > 0, (what == "ln" || what == "mv") && p == q && root == other:
		return ""
	case what == "create":
		var a live.Attr
		if a, err = f.Create(root, p, live.NewNode{Mode: unix.S_IFREG | 0o644}); err == nil {
			_, err = f.Write(a.ID, []byte(text), 0, false)
		}
	case what == "line":
		_, err = f.Write(at.ID, []byte(text), 0, false)
	case what == "save", what == "split": // as editors do, and as cp and mv
		var t live.Attr
		if t, err = f.Create(root, ".tmp", live.NewNode{Mode: at.Mode}); err == nil {
			_, err = f.Write(t.ID, []byte(text), 0, false)
		}
		if err == nil {
			_, err = f.Rename(root, ".tmp", root, p, 0, actors.Caller{})
		}
	case what == "ln":
		_, _ = f.Unlink(other, q)
		_, err = f.Link(at.ID, other, q)
	case what == "mv":
		_, err = f.Rename(root, p, other, q, 0, actors.Caller{})
	case what == "rm":
		_, err = f.Unlink(root, p)
	case what == "chmod":
		_, err = f.SetAttr(at.ID, live.SetAttr{Mode: &mode})
	}
	return fmt.Sprintf("%s: %s %s %s %q: %v; ", e.actor, what, p, q, text, err)
}

// parent returns the directory of a path, which is made if it is not there, and the name in it.
func (e editor) parent(p string) (live.NodeID, string, error) {
	for i, c := range p {
		if c == '/' {
			if err := e.do(edit{actor: e.actor, what: "mkdir", path: p[:i]}); err != nil && !errors.Is(err, errs.Exist) {
				return 0, "", err
			}
		}
	}
	return e.dir(p)
}

// changeDirectory removes or moves a directory with all that is in it.
func (e editor) changeDirectory(rnd *rand.Rand) string {
	x := edit{actor: e.actor, what: []string{"rm", "mv"}[rnd.IntN(2)], path: []string{"x", "y", "y/z"}[rnd.IntN(3)], other: []string{"x", "y", "y/z"}[rnd.IntN(3)]}
	if x.what == "mv" && rnd.IntN(2) == 0 {
		_ = e.do(edit{actor: e.actor, what: "rm", path: x.other})
	}
	if err := e.do(x); err != nil {
		return ""
	}
	return fmt.Sprintf("%s: %s %s %s; ", e.actor, x.what, x.path, x.other)
}

func (e editor) changes(rnd *rand.Rand, n int) (all string) {
	for n > 0 {
		if what := e.change(rnd); what != "" {
			all, n = all+what, n-1
		}
	}
	return all
}
