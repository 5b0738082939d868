package threeway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A TextInput is a regular file that both sides changed.
type TextInput struct {
	Base, Ours, Theirs *io.SectionReader
	Path               string
}

// MergedText is a text with the changes of both sides. Unless it is Clean, it has conflict markers.
type MergedText struct {
	Text  []byte
	Clean bool
}

// A Merger merges a file by lines, and calls merged with the result. If the file is binary or too large, it does
// not call merged. The text is valid only until merged returns.
type Merger func(ctx context.Context, in TextInput, merged func(MergedText) error) error

// MaxMerged is the size in bytes up to which a file is merged by lines.
const MaxMerged = 16 << 20

// A textMerge is a file that has to be merged by lines.
type textMerge struct {
	path               string
	file               *file
	base, ours, theirs *tree.Inode
	view               uint32 // the view of theirs
}

// A Decision is the text that a user chose for a file in conflict. Digest is the result of the function Digest for
// the sides of the conflict at that time.
type Decision struct {
	Digest string `json:"of" jsonschema:"that of the conflict"`
	Text   string `json:"text" jsonschema:"the contents of the file"`
}

// ErrStaleDecision is returned for a decision if a side of the conflict has changed since the decision.
var ErrStaleDecision = errors.New("the conflict is another one now")

// Digest returns a hash of the sizes and contents of files, in hexadecimal.
func Digest(src *tree.Source, files ...*tree.Inode) (string, error) {
	sum := sha256.New()
	for _, n := range files {
		fmt.Fprintln(sum, n.Size())
		if _, err := io.Copy(sum, n.Content.Reader(src.Files)); err != nil {
			return "", err
		}
	}

	return hex.EncodeToString(sum.Sum(nil)), nil
}

// checkDecisions returns ErrStaleDecision if a decision was not used.
func (p *Plan) checkDecisions() error {
	for path := range p.Decisions {
		if !p.usedDecisions[path] {
			return fmt.Errorf("%w: %s", ErrStaleDecision, path)
		}
	}
	return nil
}

// UseDecision replaces the contents of a file of the plan by the text of a decision. It returns ErrStaleDecision
// if d.Digest is not the Digest of the file in the plan.
func (p *Plan) UseDecision(ctx context.Context, filePath string, d Decision) error {
	f, err := p.files.fileAt(filePath)
	if err != nil {
		return err
	}

	digest := ""
	if f != nil && f.node.IsRegular() {
		if digest, err = Digest(p.Source, f.node); err != nil {
			return err
		}
	}
	if digest == "" || digest != d.Digest {
		return fmt.Errorf("%w: %s", ErrStaleDecision, filePath)
	}

	n := *f.node
	f.node, f.changed, p.files.changedPaths[filePath] = &n, true, f

	return p.setText(ctx, &n, strings.NewReader(d.Text))
}

// setText stores a text, and makes it the contents of a file of the plan.
func (p *Plan) setText(ctx context.Context, n *tree.Inode, r io.Reader) error {
	text, err := p.StoreText(ctx, r)
	if err != nil {
		return err
	}
	n.Content, n.Mtime, n.Atime = text, p.Now, p.Now
	p.stored = append(p.stored, text)

	return nil
}

// mergeTexts merges the files in texts by lines. Files that do not merge are conflicts.
func (p *Plan) mergeTexts(ctx context.Context, texts []textMerge) error {
	for _, x := range texts {
		clean, err := p.mergeText(ctx, x)
		if err != nil {
			return err
		}
		if clean {
			continue
		}

		names, err := p.files.namesOf(x.file, 0)
		if err != nil {
			return err
		}

		for _, name := range names {
			if err := p.addConflict(name, func() error {
				n := x.file.node
				n.Ino, n.Content, n.Mtime, n.Atime = x.theirs.Ino, x.theirs.Content, x.theirs.Mtime, x.theirs.Atime
				x.file.view = x.view
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeText uses the decision about a file, or merges the file by lines, and sets its contents. clean is false if
// there is neither a valid decision nor a merge without conflicts.
func (p *Plan) mergeText(ctx context.Context, x textMerge) (clean bool, err error) {
	merged := func(m MergedText) error {
		if !m.Clean {
			return nil
		}
		clean = true

		return p.setText(ctx, x.file.node, bytes.NewReader(m.Text))
	}

	d, ok := p.Decisions[x.path]
	if !ok && p.Merge == nil {
		return false, nil
	}

	if !ok {
		src := p.Source.Files
		err := p.Merge(ctx, TextInput{x.base.Content.Reader(src), x.ours.Content.Reader(src), x.theirs.Content.Reader(src), x.path}, merged)
		return clean, err
	}

	digest, err := Digest(p.Source, x.base, x.ours, x.theirs)
	if err != nil {
		return false, err
	}

	p.usedDecisions[x.path] = digest == d.Digest
	if digest != d.Digest {
		return false, nil
	}

	err = merged(MergedText{[]byte(d.Text), true})
	return clean, err
}

// A Rule decides conflicts.
type Rule string

const (
	RefuseConflicts Rule = ""       // the merge fails and changes nothing
	KeepOurs        Rule = "ours"   // keep the workspace's version
	MergeCheckedOut Rule = "merge"  // for a git directory: merge the branch that is checked out
	TakeTheirs      Rule = "theirs" // replace the workspace's version by the version of theirs
)

// RuleOf returns the rule for two options of a caller. The error is errs.Invalid if both are set.
func RuleOf(ours, theirs bool) (Rule, error) {
	switch {
	case ours && theirs:
		return "", errs.New(errs.Invalid, "ours and theirs cannot be combined")
	case ours:
		return KeepOurs, nil
	case theirs:
		return TakeTheirs, nil
	}
	return RefuseConflicts, nil
}

// ErrConflict is the kind of the error of a merge with conflicts that no rule decides.
const ErrConflict = errs.Conflict

// ConflictError returns an ErrConflict if a path is in conflict and no rule decides it.
func (p *Plan) ConflictError() error {
	for _, filePath := range p.Conflicts {
		if p.Rule(filePath) == RefuseConflicts {
			return fmt.Errorf("%w: %s; decide with --ours or --theirs, or make them equal first", ErrConflict, firstPaths(p.Conflicts))
		}
	}
	return nil
}

// firstPaths returns a text with the first paths, and how many more there are.
func firstPaths(paths []string) string {
	const few = 20
	if len(paths) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:few], ", "), len(paths)-few)
	}
	return strings.Join(paths, ", ")
}
