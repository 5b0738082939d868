package gitbridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/snapshot/threeway"
)

// Merge merges files by lines. It is a threeway.Merger.
func Merge(ctx context.Context, files []threeway.Input, clean func(i int, size int64, r io.Reader) error) error {
	return mergeMarked(ctx, files, func(i int, conflict bool, size int64, r io.Reader) error {
		if conflict {
			return nil
		}
		return clean(i, size, r)
	})
}

// mergeMarked merges files by lines, with conflict markers where the sides differ. What
// merges clean, and to what, is git's own answer: the three sides become three commits of
// a temporary repository, in which files have numbers for names. Without git, or with one
// before 2.38, nothing merges.
func mergeMarked(ctx context.Context, files []threeway.Input, each func(i int, conflict bool, size int64, r io.Reader) error) error {
	if _, err := exec.LookPath("git"); err != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "amberfs-merge-")
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := initOwn(ctx, dir); err != nil {
		return err
	}
	r := &repository{trust: trustNone, dir: dir, gitDir: dir, objects: filepath.Join(dir, "objects")}
	if err := r.commitSides(ctx, files); err != nil {
		return fmt.Errorf("merging files: %w", noSpace(err))
	}
	tree, conflicts, err := r.mergeTree(ctx)
	const usage = 129
	if exitCode(err) == usage {
		return nil
	}
	if err != nil {
		return fmt.Errorf("merging files: %w", noSpace(err))
	}
	return readArchive(ctx, dir, r.trust.env(), tree, func(e Entry) error {
		i, err := strconv.Atoi(e.Path)
		if err != nil {
			return err
		}
		return each(i, conflicts[e.Path], e.Size, e.Data)
	}, ImportOptions{})
}

// commitSides makes the branches base, and ours and theirs on top of it.
func (r *repository) commitSides(ctx context.Context, files []threeway.Input) error {
	p, err := r.start(ctx, nil, "fast-import", "--quiet", "--done", "--depth=0")
	if err != nil {
		return err
	}
	in := bufio.NewWriterSize(p.in, 256<<10)
	for side, name := range []string{"base", "ours", "theirs"} {
		fmt.Fprintf(in, "commit refs/heads/%s\ncommitter amberfs <amberfs@localhost> 0 +0000\ndata 0\n", name)
		if side > 0 {
			in.WriteString("from refs/heads/base\n")
		}
		for i, f := range files {
			content := []*io.SectionReader{f.Base, f.Ours, f.Theirs}[side]
			fmt.Fprintf(in, "M 100644 inline %d\ndata %d\n", i, content.Size())
			if _, err := io.Copy(in, content); err != nil {
				return p.fail(err)
			}
			in.WriteByte('\n')
		}
	}
	in.WriteString("done\n")
	if err := in.Flush(); err != nil {
		return p.fail(err)
	}
	return p.wait()
}

// mergeTree merges ours and theirs, and returns the tree and the names of files
// in conflict.
func (r *repository) mergeTree(ctx context.Context) (tree string, conflicts map[string]bool, err error) {
	p, err := r.start(ctx, []string{"GIT_ATTR_NOSYSTEM=1"}, "-c", "core.attributesFile=/dev/null", "-c", "merge.renames=false",
		"merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "ours", "theirs") // the names stand in the markers
	if err != nil {
		return "", nil, err
	}
	out, err := io.ReadAll(p.out)
	if err != nil {
		return "", nil, p.fail(err)
	}
	const inConflict = 1
	if err := p.wait(); err != nil && exitCode(err) != inConflict {
		return "", nil, err
	}
	names := strings.Split(string(out), "\x00")
	conflicts = make(map[string]bool)
	for _, name := range names[1:] {
		conflicts[name] = true
	}
	return names[0], conflicts, nil
}
