package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ignoreName is a file of a directory that names, as .gitignore does, what is not applied to it.
const ignoreName = ".amberignore"

// agentFolders are where agents look for the hooks and settings that amberfs writes.
var agentFolders = regexp.MustCompile(`^\.(claude|codex|gemini|agents)(/|$)`)

// leftOut returns which changes are not applied: what .amberignore names, and what amberfs
// wrote for agents.
func (a *applying) leftOut(changes []tree.Change) (map[string]bool, error) {
	left := make(map[string]bool)
	var folders []tree.Change
	forks := forkEntries(changes)
	holds := make(map[string]bool) // directories of which something is applied
	for _, c := range changes {
		p := c.Path.String()
		switch {
		case forks.MatchString(p):
			left[p] = true
		case !agentFolders.MatchString(p):
		case c.B != nil && c.B.IsDir():
			folders = append(folders, c)
		case a.wroteForAgents(c):
			left[p] = true
		default:
			for dir := c.Path.Dir; dir != nil; dir = dir.Dir {
				holds[dir.String()] = true
			}
		}
	}
	for _, c := range folders {
		if p := c.Path.String(); c.A == nil && !holds[p] {
			left[p] = true
		}
	}
	text, err := readSmall(filepath.Join(a.res.Dir, ignoreName))
	if errors.Is(err, os.ErrNotExist) || len(changes) == 0 {
		return left, nil
	}
	if err != nil {
		return nil, err
	}
	return left, ignored(a.ctx, text, changes, left)
}

// forkEntries matches git's records of worktrees that are forks, which are not in the directory.
// `amberfs worktree add` marks these records with a file.
func forkEntries(changes []tree.Change) *regexp.Regexp {
	none := `$.`
	all := []string{none}
	for _, c := range changes {
		if m := forkEntry.FindStringSubmatch(c.Path.String()); m != nil {
			all = append(all, regexp.QuoteMeta(m[1])+"(/|$)")
		}
	}
	return regexp.MustCompile("^(" + strings.Join(all, "|") + ")")
}

var forkEntry = regexp.MustCompile(`^((?:.*/)?\.git/worktrees/[^/]+)/amberfs-link$`)

// wroteForAgents reports whether a file is one of those that `amberfs hook --install` writes, or a
// link to a fork that is a worktree.
func (a *applying) wroteForAgents(c tree.Change) bool {
	const most = 64 << 10
	if c.B != nil && c.B.IsSymlink() {
		return strings.Contains(c.B.Target, naming.ForksDir+"/")
	}
	if c.B == nil || !c.B.IsRegular() || c.B.Size() > most {
		return false
	}
	text, err := io.ReadAll(c.B.Content.Reader(a.o.Source.Files))
	return err == nil && bytes.Contains(text, []byte("amberfs"))
}

// ignored adds to left the paths that patterns match. Git decides, in an empty repository.
func ignored(ctx context.Context, patterns string, changes []tree.Change, left map[string]bool) error {
	dir, err := os.MkdirTemp("", "amberfs-ignore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(patterns), 0o600); err != nil {
		return err
	}
	if out, err := command(ctx, dir, nil, "init", "-q", ".").CombinedOutput(); err != nil {
		return fmt.Errorf("reading %s: git: %w: %s", ignoreName, err, bytes.TrimSpace(out))
	}
	p, err := start(ctx, dir, nil, ignorer...)
	if err != nil {
		return err
	}
	paths := make([]string, len(changes))
	for i, c := range changes {
		if paths[i] = c.Path.String(); c.A != nil && c.A.IsDir() || c.B != nil && c.B.IsDir() {
			paths[i] += "/"
		}
	}
	const pattern, fields = 2, 4
	err = p.ask(paths, fields, func(i, field int, text string) {
		if field == pattern && text != "" && !strings.HasPrefix(text, "!") {
			left[changes[i].Path.String()] = true
		}
	})
	const noneMatched = 1
	if werr := p.wait(); err == nil && werr != nil && exitCode(werr) != noneMatched {
		err = werr
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", ignoreName, err)
	}
	return nil
}
