package threeway

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// InGit splits a path below a .git directory into that directory and the rest.
func InGit(p string) (repo, rel string, ok bool) {
	if rel, ok = strings.CutPrefix(p, ".git/"); ok {
		return ".git", rel, true
	}
	before, rel, ok := strings.Cut(p, "/.git/")
	return before + "/.git", rel, ok
}

// A GitFile is what a file of a repository means to a merge.
type GitFile int

// The kinds of files.
const (
	AnyFile  GitFile = iota
	IndexOf          // the index: git finds out itself what changed
	Reflog           // a log: lines are added to it
	OwnNotes         // what each side has of its own: messages, objects by their hash
	RefOf            // a branch, a tag, or HEAD
)

// KindInGit classifies a path relative to the .git directory.
func KindInGit(rel string) GitFile {
	switch {
	case rel == "index":
		return IndexOf
	case strings.HasPrefix(rel, "logs/"):
		return Reflog
	case rel == "HEAD", strings.HasPrefix(rel, "refs/"):
		return RefOf
	case strings.HasPrefix(rel, "objects/"), rel == "COMMIT_EDITMSG", rel == "ORIG_HEAD", rel == "FETCH_HEAD", rel == "gc.log":
		return OwnNotes
	}
	return AnyFile
}

// gitChange decides about a change of the fork to a file of a repository that the
// workspace changed too. a is what the workspace has. If drop is set, the change is not
// made. with is the merged file, nil if there is none.
func (m *Merge) gitChange(ctx context.Context, both collision) (decided, drop bool, with *tree.Inode, err error) {
	_, rel, ok := InGit(both.path)
	if !ok {
		return false, false, nil, nil
	}
	switch KindInGit(rel) {
	case IndexOf:
		return both.theirs != nil && both.ours != nil, false, nil, nil // see settleGit
	case OwnNotes:
		return true, both.ours != nil, nil, nil
	case Reflog:
		with, err = m.appendLog(ctx, both)
		return true, with == nil, with, err
	}
	return false, false, nil, nil
}

// appendLog adds the lines that the fork has added to a log. It returns nil if the
// workspace's log stays as it is.
func (m *Merge) appendLog(ctx context.Context, both collision) (*tree.Inode, error) {
	var sides [3][]byte
	for i, n := range []*tree.Inode{both.base, both.ours, both.theirs} {
		if n == nil && i == 0 {
			continue
		}
		if n == nil || !n.IsRegular() || n.Size() > maxMerged {
			return nil, nil
		}
		b, err := io.ReadAll(io.LimitReader(n.Content.Reader(m.Source.Files), n.Size()))
		if err != nil {
			return nil, err
		}
		sides[i] = b
	}
	base, ours, theirs := sides[0], sides[1], sides[2]
	if !bytes.HasPrefix(ours, base) || !bytes.HasPrefix(theirs, base) {
		return nil, nil
	}
	sealer := &content.Sealer{Src: m.Source.Files, Objects: m.Objects, Workers: 1}
	sealed, err := content.FromReader(ctx, sealer, io.MultiReader(bytes.NewReader(ours), bytes.NewReader(theirs[len(base):])))
	if err != nil {
		return nil, err
	}
	m.Stored = true
	return both.merged(content.Of(sealed), m.Now), nil
}

// settleGit drops the indexes that do not belong to the commit that HEAD names after the
// merge, and removals of objects: the other side may need them.
func (m *Merge) settleGit() {
	moved := map[string]bool{}
	for _, s := range m.Steps {
		if repo, rel, ok := InGit(s.Path.String()); ok && (KindInGit(rel) == RefOf || rel == "packed-refs") {
			moved[repo] = true
		}
	}
	kept := m.Steps[:0]
	for _, s := range m.Steps {
		if m.dropsInGit(&s, moved) {
			continue
		}
		kept = append(kept, s)
	}
	m.Steps = kept
}

func (m *Merge) dropsInGit(s *live.Step, moved map[string]bool) bool {
	p := s.Path.String()
	repo, rel, ok := InGit(p)
	if !ok {
		return false
	}
	if _, changed := m.mine[p]; changed && KindInGit(rel) == IndexOf {
		return !moved[repo]
	}
	return s.A != 0 && s.B == 0 && s.With == nil && strings.HasPrefix(rel, "objects/")
}
