package gitbridge

import (
	"bufio"
	"context"
	"errors"
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
	return r.handOut(ctx, tree, conflicts, len(files), each)
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

// handOut reads the merged files.
func (r *repository) handOut(ctx context.Context, tree string, conflicts map[string]bool, files int, each func(i int, conflict bool, size int64, r io.Reader) error) error {
	p, err := r.start(ctx, nil, "cat-file", "--batch")
	if err != nil {
		return err
	}
	blobs := bufio.NewReaderSize(p.out, 64<<10)
	for i := range files {
		if _, err := fmt.Fprintf(p.in, "%s:%d\n", tree, i); err != nil {
			return p.fail(err)
		}
		size, err := blobHeader(blobs)
		if err != nil {
			return p.fail(err)
		}
		body := &wholeReader{r: blobs, left: size}
		if err := each(i, conflicts[strconv.Itoa(i)], size, body); err != nil {
			_ = p.fail(nil)
			return err
		}
		if err := blobEnd(blobs, body); err != nil {
			return p.fail(err)
		}
	}
	return p.wait()
}

// blobHeader reads what git cat-file writes before a blob, and returns its size.
func blobHeader(r *bufio.Reader) (size int64, err error) {
	head, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(head)
	if len(fields) != 3 || fields[1] != "blob" {
		return 0, fmt.Errorf("git has no such blob: %s", strings.TrimSpace(head))
	}
	if size, err = strconv.ParseInt(fields[2], 10, 64); err != nil {
		return 0, fmt.Errorf("git cat-file answered %q", head)
	}
	return size, nil
}

// blobEnd passes over what is left of a blob and the line end after it.
func blobEnd(r *bufio.Reader, body io.Reader) error {
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if c, err := r.ReadByte(); err != nil {
		return err
	} else if c != '\n' {
		return errors.New("git cat-file lost its place")
	}
	return nil
}
