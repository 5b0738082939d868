package gitbridge

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/scratch"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// A Merger merges files by lines. Its method Merge is a threeway.Merger.
type Merger struct {
	// Memory is charged with the memory of git. A file that exceeds it does not merge. May be nil.
	Memory *budget.Budget
	// Admit, if set, is asked before a merged file is stored, and may refuse that.
	Admit func(bytes int64) error
}

func (m Merger) Merge(ctx context.Context, files []threeway.Input, clean func(i int, size int64, r io.Reader) error) error {
	return mergeMarked(ctx, m.Memory, files, func(i int, conflict bool, size int64, r io.Reader) error {
		if conflict {
			return nil
		}
		if m.Admit != nil {
			if err := m.Admit(size); err != nil {
				return err
			}
		}
		return clean(i, size, r)
	})
}

const (
	// maxBatch is how many bytes of files are in a temporary repository, unless one alone
	// has more.
	maxBatch = 64 << 20
	// gitMemory is what git takes beside the files, mergedLine what a line of a file takes
	// beside its bytes while they are merged, in bytes.
	gitMemory  = 8 << 20
	mergedLine = 110
)

// mergeMarked merges files by lines, with conflict markers where the sides differ. What
// merges cleanly, and the result, is decided by git. Without git, or with one before 2.38,
// nothing merges.
func mergeMarked(ctx context.Context, memory *budget.Budget, files []threeway.Input, each func(i int, conflict bool, size int64, r io.Reader) error) error {
	if _, err := exec.LookPath("git"); err != nil {
		return nil
	}
	b := batch{memory: memory, each: each, cost: gitMemory}
	for i, f := range files {
		size, lines, err := weigh(ctx, f)
		if err != nil {
			return fmt.Errorf("merging files: %w", err)
		}
		cost := gitMemory + size + mergedLine*lines
		if !memory.Holds(cost) {
			continue
		}
		if b.size+size > maxBatch {
			if err := b.merge(ctx); err != nil {
				return err
			}
		}
		b.files, b.of = append(b.files, f), append(b.of, i)
		b.size, b.cost = b.size+size, max(b.cost, cost)
	}
	return b.merge(ctx)
}

// weigh returns the bytes and lines of all sides of a file.
func weigh(ctx context.Context, f threeway.Input) (size, lines int64, err error) {
	buf := make([]byte, 64<<10)
	for _, side := range []*io.SectionReader{f.Base, f.Ours, f.Theirs} {
		size += side.Size()
		for at := int64(0); at < side.Size() && err == nil; {
			n, rerr := side.ReadAt(buf, at)
			lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
			if at += int64(n); rerr != nil && rerr != io.EOF {
				return 0, 0, rerr
			}
			err = turns.Yield(ctx)
		}
	}
	return size, lines, err
}

// A batch is files that are merged together.
type batch struct {
	memory *budget.Budget
	each   func(i int, conflict bool, size int64, r io.Reader) error

	files      []threeway.Input
	of         []int // the indexes that each is called with
	size, cost int64
}

// merge merges the batch, and begins another one. The three sides become three commits of a
// temporary repository, in which files have numbers for names.
func (b *batch) merge(ctx context.Context) error {
	if len(b.files) == 0 {
		return nil
	}
	release, err := b.memory.Take(ctx, b.cost)
	if err != nil {
		return err
	}
	defer release()
	temp, err := scratch.New(scratch.Merge)
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	defer temp.Remove()
	dir := temp.Path
	if err := initOwn(ctx, dir); err != nil {
		return err
	}
	r := &repository{trust: trustNone, dir: dir, gitDir: dir, objects: filepath.Join(dir, "objects")}
	if err := r.commitSides(ctx, b.files); err != nil {
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
	err = readArchive(ctx, dir, r.trust.env(), tree, func(e Entry) error {
		i, err := strconv.Atoi(e.Path)
		if err != nil || i < 0 || i >= len(b.of) {
			return fmt.Errorf("merging files: git answered %q", e.Path)
		}
		return b.each(b.of[i], conflicts[e.Path], e.Size, e.Data)
	}, ImportOptions{})
	*b = batch{memory: b.memory, each: b.each, cost: gitMemory}
	return err
}

// commitSides makes the branches base, and ours and theirs on top of it.
func (r *repository) commitSides(ctx context.Context, files []threeway.Input) error {
	p, err := r.start(ctx, nil, "-c", "core.bigFileThreshold=1m", "fast-import", "--quiet", "--done", "--depth=0")
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
