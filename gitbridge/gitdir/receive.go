package gitdir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// A receiver changes the receiving repository, by git's commands and locks.
type receiver struct {
	gitCaller
	repo *Repo
}

// literalPaths is an environment in which git takes paths literally, not as patterns.
var literalPaths = []string{"GIT_LITERAL_PATHSPECS=1"}

// writeFiles writes files of the receiving repository, in the order of their names. It removes files whose data is
// nil.
func (r receiver) writeFiles(files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := r.writeFile(name, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file of the receiving repository, or removes it if data is nil.
func (r receiver) writeFile(name string, data []byte) error {
	at := r.repo.pathOf(name)

	if data == nil {
		err := os.Remove(at)
		if dir := filepath.Dir(at); err == nil && dir != r.repo.Dir {
			_ = os.Remove(dir) // an error is ignored: only an empty directory is to be removed
		}
		return errs.Ignore(err, fs.ErrNotExist)
	}

	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}

	return replaceFile(at, data)
}

// moveRefs moves the refs, if they still have their old values, and HEAD. The branch that HEAD leaves moves after
// HEAD, so that after a kill HEAD is at its old or its new commit.
func (r receiver) moveRefs(ctx context.Context, p *refPlan) error {
	message := "amberfs: from " + refComponent(p.merge.Name)
	leftBranch := strings.TrimPrefix(p.ours.head, "ref: ")
	// Deletions come first: the new branch x/y needs a directory x, which cannot exist before the branch x is
	// deleted.
	steps := make([]string, 3)

	for _, u := range p.updates {
		if u.name == stash && u.new != "" {
			if err := r.writeFile(stash, []byte(u.new+"\n")); err != nil {
				return err
			}
			continue
		}

		step, line := 1, fmt.Sprintf("update %s %s %s\n", u.name, u.new, cmp.Or(u.old, strings.Repeat("0", 2*p.ours.idLen)))
		if u.new == "" {
			step, line = 0, fmt.Sprintf("delete %s %s\n", u.name, u.old)
		}
		if u.name == leftBranch && p.head != "" && !slices.ContainsFunc(p.updates, func(n refUpdate) bool { return areNested(n.name, u.name) }) {
			step = 2
		}
		steps[step] += line
	}

	for i, lines := range steps {
		if i == len(steps)-1 {
			if err := r.moveHead(ctx, p, message); err != nil {
				return err
			}
		}
		if lines == "" {
			continue
		}
		if _, err := r.ask(ctx, nil, strings.NewReader("option no-deref\n"+lines), "update-ref", "-m", message, "--no-deref", "--stdin"); err != nil {
			return err
		}
	}

	return nil
}

// areNested reports whether one of two refs lies below the other, so that they cannot exist at the same time.
func areNested(a, b string) bool { return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") }

// moveHead moves HEAD, and sets symbolic refs.
func (r receiver) moveHead(ctx context.Context, p *refPlan, message string) error {
	for name, target := range p.symrefs {
		if _, err := r.ask(ctx, nil, nil, "symbolic-ref", "-m", message, name, target); err != nil {
			return err
		}
	}
	if p.head == "" {
		return nil
	}

	args := []string{"update-ref", "-m", message, "--no-deref", "HEAD", p.head}
	if target, ok := strings.CutPrefix(p.head, "ref: "); ok {
		args = []string{"symbolic-ref", "-m", message, "HEAD", target}
	} else if p.ours.isID(p.ours.head) {
		args = append(args, p.ours.head)
	}

	_, err := r.ask(ctx, nil, nil, args...)
	return err
}

// replaceFile replaces a file by a new file with the given bytes and the permissions of the old one.
func replaceFile(at string, data []byte) error {
	mode := fs.FileMode(0o666)
	if info, err := os.Lstat(at); err == nil {
		mode = info.Mode().Perm()
	}

	temp := at + ".amberfs"
	_ = os.Remove(temp) // a killed process may have left the file
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}

	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temp, at)
	}

	return err
}

// refError adds ErrBusy to an error of moveRefs if a ref was locked or has moved.
func refError(err error) error {
	if strings.Contains(err.Error(), "cannot lock ref") || strings.Contains(err.Error(), "but expected") {
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return err
}
