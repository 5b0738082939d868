package gitdir

import (
	"cmp"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// MergeFiles has git merge three sets of files, and follow renames. sides are the base, ours and theirs, by path.
// merged are the files of the result that differ from both sides; nil means that there are conflicts. taken are the
// paths at which the result has the file of theirs, or no file. dir is the directory of a scratch repository.
func MergeFiles(ctx context.Context, git Git, dir string, sides [3]map[string]*File) (merged map[string]MergedFile, taken []string, err error) {
	s := &scratchRepo{gitCaller: gitCaller{git, dir, "", []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null/none"}}}
	if err := makeRepo(dir, map[string]string{"HEAD": "ref: " + branches + "none\n", "config": "[core]\n\tbare = true\n"}); err != nil {
		return nil, nil, err
	}

	ours, theirs, tree := sideBranches[1], sideBranches[2], ""
	if err = s.importFiles(ctx, sides); err == nil {
		moved, lost := s.pairRenamed(ctx, sides)
		if lost {
			return nil, nil, s.callErr
		}
		if moved {
			err = s.importFiles(ctx, sides)
		}
	}
	if err == nil {
		tree, err = s.ask(ctx, nil, nil, "-c", "merge.directoryRenames=false", "merge-tree", "--write-tree", "--no-messages", ours, theirs)
	}
	if err != nil {
		return nil, nil, s.callErr // if s.callErr is nil, files are in conflict, or git refuses the name of a file
	}

	tree = strings.TrimSpace(tree)
	changed, fromBoth, err := s.compareMerge(ctx, ours, theirs, tree)
	if err != nil {
		return nil, nil, err
	}

	merged = make(map[string]MergedFile)
	for at, c := range changed {
		if !fromBoth[at] || c[1] == nil {
			taken = append(taken, at)
			continue
		}
		data, err := s.ask(ctx, nil, nil, "cat-file", "blob", c[1].ID)
		if err != nil || strings.Contains(data, "< "+ours) { // conflict markers: git may leave some without an error
			return nil, nil, err
		}
		merged[at] = MergedFile{c[1].Mode&0o111 != 0, []byte(data)}
	}

	return merged, taken, nil
}

// sideBranches are the branches of MergeFiles.
var sideBranches = [3]string{branches + "base", branches + "ours", branches + "theirs"}

// importFiles makes the branches of sideBranches from the files of sides.
func (s *scratchRepo) importFiles(ctx context.Context, sides [3]map[string]*File) error {
	var in []io.Reader
	for i, name := range sideBranches {
		head := "commit " + name + "\ncommitter a <a> 0 +0000\ndata 0\n"
		if i > 0 {
			head += "from " + sideBranches[0] + "\n"
		}
		in = append(in, strings.NewReader(head+"deleteall\n"))
		for _, at := range slices.Sorted(maps.Keys(sides[i])) {
			f := sides[i][at]
			mode := map[bool]int{false: 0o100644, true: 0o100755}[f.Exec]
			in = append(in, strings.NewReader(fmt.Sprintf("M %o inline %s\ndata %d\n", mode, gitquote.Name(at), f.Size)), f.Open(), strings.NewReader("\n"))
		}
	}

	_, err := s.ask(ctx, nil, io.MultiReader(in...), "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force")
	return err
}

// pairRenamed finds the files that one side renamed, and that the other side has only at the new path, for example
// after an earlier merge. In the files of the other side, it moves such a file to the old path: git itself sees that
// rename only if the contents are similar. moved means that it moved files. lost means that the other side has changed
// the file at the old path, too: if both sides have equal files at the new path, git drops that change without a
// conflict.
func (s *scratchRepo) pairRenamed(ctx context.Context, sides [3]map[string]*File) (moved, lost bool) {
	same := func(f, o *File) bool { return f.Exec == o.Exec && f.BlobID(sha1.Size) == o.BlobID(sha1.Size) }
	for i, side := range sides[1:] {
		out, _ := s.ask(ctx, nil, nil, "diff-tree", "-r", "-z", "-M", "--diff-filter=R", "--name-status", sideBranches[0], sideBranches[1+i])
		other, dirs, f := sides[2-i], make(map[string]bool), strings.Split(out, "\x00") // dirs are the directories of other
		for at := range other {
			for dir := path.Dir(at); !dirs[dir]; dir = path.Dir(dir) {
				dirs[dir] = true
			}
		}

		for ; len(f) > 2; f = f[3:] {
			from, to := f[1], f[2]
			inTheWay := dirs[from]
			for at := from; at != "."; at = path.Dir(at) {
				inTheWay = inTheWay || other[at] != nil
			}

			switch {
			case side[to] == nil || other[to] == nil:
			case !inTheWay:
				other[from], moved = other[to], true
				delete(other, to)
			case other[from] != nil && !same(other[from], sides[0][from]) && same(other[to], side[to]):
				lost = true
			}
		}
	}
	return moved, lost
}

// ChangedFiles compares the working tree with the HEAD commit of the base. It returns the paths of the files that
// differ, and of the files of the commit that the working tree of the base does not have. inBase reports whether that
// working tree has a file. Ignored files are left out.
func (r *Repo) ChangedFiles(ctx context.Context, git Git, base Files, inBase func(path string) bool) ([]string, error) {
	s, err := readState(base)
	if err != nil {
		return nil, err
	}

	c, head := gitCaller{git, r.Dir, r.Worktree, literalPaths}, cmp.Or(s.resolve(s.head), s.emptyTreeID())
	changed, err := c.ask(ctx, nil, nil, "diff-index", "--name-only", "-z", "--no-renames", head, "--")
	untracked, uerr := c.ask(ctx, nil, nil, "ls-files", "-z", "--others", "--exclude-standard")
	committed, cerr := c.ask(ctx, nil, nil, "ls-tree", "-r", "-z", "--name-only", "--full-tree", head)

	all := strings.Split(strings.TrimSuffix(changed+untracked, "\x00"), "\x00")
	for name := range strings.SplitSeq(strings.TrimSuffix(committed, "\x00"), "\x00") {
		if !inBase(name) {
			all = append(all, name)
		}
	}

	return all, errors.Join(err, uerr, cerr)
}
