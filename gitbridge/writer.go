package gitbridge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// writer feeds one git fast-import: first the blobs, then one commit. The entries of the commit are
// collected in a temporary file, because fast-import reads them after the blobs.
type writer struct {
	repo        *repository
	env         []string // environment variables of git calls that write objects
	p           *process
	in          *bufio.Writer
	meter       *meter
	spool       *os.File      // the entries of the commit, as commands of fast-import
	entryWriter *bufio.Writer // writes to spool
	treeEntries *[]entry      // entries of the directory that makeTree makes; nil outside of makeTree

	blobCount int
	blobBytes int64
}

func newWriter(ctx context.Context, r *repository, q *quarantine, m *meter) (*writer, error) {
	// The file is not in the repository. The repository may lie in a mount of this process, which must
	// not have a file of its own mount open while it starts another process.
	spool, err := os.CreateTemp("", "amberfs-export-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary file: %w", err)
	}

	os.Remove(spool.Name())

	// An export is fast with little compression and, by --depth=0, without deltas: a later git gc makes better ones.
	// git streams files above core.bigFileThreshold instead of reading them into memory.
	args := []string{"-c", "pack.compression=1", "-c", "core.compression=1", "-c", "core.bigFileThreshold=1m"}
	if r.trust == trustNone { // git would unlink a small pack without overwriting it: contents that a user forgets later would stay on the disk
		args = append(args, "-c", "fastimport.unpackLimit=1")
	}

	p, err := r.startGit(ctx, q.env(), append(args, "fast-import", "--quiet", "--done", "--depth=0")...)
	if err != nil {
		return nil, errors.Join(err, spool.Close())
	}

	// The struct hides ReadFrom of p.in, so that errors of the bufio.Writer are errors of writing to
	// git, and not of reading the file.
	in := bufio.NewWriterSize(struct{ io.Writer }{p.in}, 256<<10)
	return &writer{repo: r, env: q.env(), p: p, meter: m, spool: spool, in: in, entryWriter: bufio.NewWriterSize(meteredWriter{spool, m.chargeTemporary}, 64<<10)}, nil
}

func (w *writer) close() {
	w.spool.Close()
	w.p.close()
	// A killed fast-import has written a crash report to the repository.
	os.Remove(filepath.Join(w.repo.gitDir, "fast_import_crash_"+strconv.Itoa(w.p.cmd.Process.Pid)))
}

// commitMark is the mark of the commit in fast-import. The blobs have the marks after it.
const commitMark = 1

// blob sends size bytes of r as a blob and returns its mark in fast-import.
func (w *writer) blob(r io.Reader, size int64) (mark string, err error) {
	w.blobCount++
	w.blobBytes += size
	mark = ":" + strconv.Itoa(commitMark+w.blobCount)
	fmt.Fprintf(w.in, "blob\nmark %s\ndata %d\n", mark, size)
	n, err := io.Copy(meteredWriter{w.in, w.meter.chargeContents}, io.LimitReader(r, size))
	w.in.WriteByte('\n')
	if _, broken := w.in.Write(nil); broken != nil {
		return "", w.p.abort(broken)
	}
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes instead of %d", n, size)
	}

	return mark, err
}

// addEntry puts a path into the commit. object is the mark or the id of its object.
func (w *writer) addEntry(mode uint32, object, name string) {
	if w.treeEntries != nil {
		*w.treeEntries = append(*w.treeEntries, entry{mode, object, path.Base(name)})
		return
	}
	fmt.Fprintf(w.entryWriter, "M %06o %s %s\n", mode, object, gitquote.Name(name))
}

// entry is a file in a git tree.
type entry struct {
	mode       uint32
	mark, name string // mark is "" until the file is stored
}

// minMktreeFiles is the smallest number of files of a directory whose tree git mktree makes. fast-import is
// slow for such directories: it compares each name with all others.
const minMktreeFiles = 1000

// makeTree puts a directory into the commit. fill calls addEntry for each of its files. Subdirectories are
// added after makeTree has returned.
func (w *writer) makeTree(dir string, fill func() error) error {
	var files []entry
	w.treeEntries = &files
	err := fill()
	w.treeEntries = nil
	if err != nil || len(files) == 0 {
		return err
	}

	var list bytes.Buffer
	err = w.p.exchange(len(files), '\n', func() error {
		for _, f := range files {
			fmt.Fprintf(w.in, "get-mark %s\n", f.mark)
		}
		return w.in.Flush()
	}, func(i int, id string) {
		fmt.Fprintf(&list, "%06o blob %s\t%s\x00", files[i].mode, id, files[i].name)
	})
	if err != nil {
		return err
	}

	// mktree cannot find the blobs yet (--missing): fast-import has not finished their pack.
	id, err := w.repo.gitWithInput(w.p.ctx, w.env, &list, "mktree", "-z", "--missing")
	if err != nil {
		return fmt.Errorf("making the tree of %q: %w", dir, err)
	}

	fmt.Fprintf(w.entryWriter, "M 040000 %s %s\n", bytes.TrimSpace(id), cmp.Or(gitquote.Name(dir), `""`))

	return nil
}

// remove removes a path, and all paths below it, from the commit.
func (w *writer) remove(name string) {
	fmt.Fprintf(w.entryWriter, "D %s\n", gitquote.Name(name))
}

// commit describes the commit to make.
type commit struct {
	author, committer string // "Name <mail>"
	time              time.Time
	message           string
	parent            string
	tree              string // tree to start from, "" for an empty one
}

// commit makes the commit and ends fast-import, which needs a branch for a commit. The branch is
// deleted at the end, so fast-import never writes it to the repository.
func (w *writer) commit(c commit) (id, tree string, err error) {
	if err := w.entryWriter.Flush(); err != nil {
		return "", "", fmt.Errorf("writing a temporary file: %w", err)
	}

	const branch = "refs/amberfs-export"
	fmt.Fprintf(w.in, "commit %s\nmark :%d\nauthor %s %d +0000\ncommitter %s %[4]d +0000\ndata %[6]d\n%[7]s\n",
		branch, commitMark, c.author, max(c.time.Unix(), 0), c.committer, len(c.message), c.message)
	if c.parent != "" {
		fmt.Fprintf(w.in, "from %s\n", c.parent)
	}

	fmt.Fprintln(w.in, "deleteall")
	if c.tree != "" {
		fmt.Fprintf(w.in, "M 040000 %s \"\"\n", c.tree)
	}

	if _, err := io.Copy(w.in, io.NewSectionReader(w.spool, 0, math.MaxInt64)); err != nil {
		return "", "", w.p.abort(err)
	}
	fmt.Fprintf(w.in, "\nget-mark :%d\nls :%[1]d \"\"\nreset %s\nfrom %s\n\ndone\n", commitMark, branch, strings.Repeat("0", w.repo.idLength()))
	var answers [2]string
	if err = w.p.exchange(len(answers), '\n', w.in.Flush, func(i int, text string) { answers[i] = text }); err == nil {
		err = w.p.wait()
	}
	if err != nil {
		return "", "", err
	}

	fields := strings.Fields(answers[1])
	if len(fields) < 3 || !w.repo.isID(answers[0]) || !w.repo.isID(fields[2]) {
		return "", "", fmt.Errorf("git fast-import answered %q", answers)
	}

	return answers[0], fields[2], nil
}
