package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/handoff"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// A receipt is the record of a received handoff. It is a file in the state directory of the user who received
// it.
type receipt struct {
	handoff.ReceivedHandoff
	Path      string   `json:"path"`
	Receiver  string   `json:"by"`              // a random text that identifies this receiver, see handoff.Claim
	WrittenAt int64    `json:"since,omitempty"` // the change time (ns) of the directory when all files were written, 0 before
	Skipped   []string `json:"skipped,omitempty"`
}

// receiptPath returns the path of the receipt of a directory.
func receiptPath(dir string) (string, error) {
	state, err := env.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "handoffs", fmt.Sprintf("%x.json", sha256.Sum256([]byte(dir)))), nil
}

// readReceipt returns the receipt of a directory, nil if it has none.
func readReceipt(dir string) (*receipt, error) {
	name, err := receiptPath(dir)
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	r := &receipt{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, errs.Fail(errs.Damaged, "%s: %w", name, err)
	}

	return r, nil
}

func (r *receipt) save() error {
	name, err := receiptPath(r.Path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}

	return vfs.WriteFile(vfs.OS, name, raw)
}

// receiptHere returns the receipt of the working directory or of a directory above it, nil if none has a receipt. It
// skips directories whose tree is not written completely.
func receiptHere(a *app) (*receipt, error) {
	dir, err := resolvePath(a.commandDir())
	for ; err == nil; dir = filepath.Dir(dir) {
		r, err := readReceipt(dir)
		if err != nil || r != nil && r.WrittenAt != 0 || dir == "/" {
			return r, err
		}
	}
	return nil, err
}

// resolvePath resolves the symbolic links in a path. If err is set, it returns err.
func resolvePath(dir string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	mounts, err := locate.Mounts()
	return locate.Resolve(mounts, dir), err
}

// A receivedOutput is the output of `amberfs handoff LINE PATH`.
type receivedOutput struct {
	Path       string   `json:"path"`
	ID         string   `json:"id"`
	Files      int64    `json:"files"`
	Bytes      int64    `json:"bytes"`
	Skipped    []string `json:"skipped,omitempty"`
	Session    string   `json:"session,omitempty"`
	Transcript string   `json:"transcript,omitempty"`
}

// receiveHandoff writes the tree of a handoff to a directory that does not exist or is empty.
func receiveHandoff(ctx context.Context, a *app, line handoff.Line, dir string) error {
	dir, err := resolvePath(a.absPath(dir))
	if err != nil {
		return err
	}
	r, err := prepareReceipt(line, dir)
	if err != nil {
		return err
	}

	c := known.OpenCache(os.TempDir())
	got, err := handoff.Claim(ctx, c, line, r.Receiver)
	if err != nil {
		return explainUnreachable(err)
	}

	r.ReceivedHandoff = *got
	if err := r.save(); err != nil {
		return err
	}

	bar := a.newProgress()
	defer bar.done()
	bar.show(service.Progress{What: "receiving"})

	objects, err := got.Open(ctx, c, nil)
	if err != nil {
		return explainUnreachable(err)
	}
	defer objects.Close()

	out := receivedOutput{Path: dir, ID: r.ID, Files: got.Ref.Files, Bytes: got.Ref.Bytes, Session: got.Session}
	if out.Skipped, err = r.writeTree(ctx, a, objects, bar); err != nil {
		return explainUnreachable(err)
	}
	if out.Transcript, err = r.placeTranscript(objects); err != nil {
		return explainUnreachable(err)
	}

	r.Skipped = out.Skipped
	if r.WrittenAt, err = bumpChangeTime(dir); err != nil {
		return err
	}
	if err := r.save(); err != nil {
		return err
	}
	objects.RemoveLine()
	bar.done()

	return a.print(out, func() { r.printSummary(a, out) })
}

// explainUnreachable adds a hint to the error of a remote that does not answer.
func explainUnreachable(err error) error {
	if errors.Is(err, errs.Unreachable) {
		return errs.Fail(errs.Failed, "%w", err).WithHint("what was received is kept: run the same line again to go on")
	}
	return err
}

// prepareReceipt makes the directory and its receipt. If the line was received in this directory before, and that was
// interrupted, prepareReceipt returns the existing receipt.
func prepareReceipt(line handoff.Line, dir string) (*receipt, error) {
	r, err := readReceipt(dir)
	if err != nil {
		return nil, err
	}
	if r != nil && r.Line == line && r.WrittenAt == 0 {
		return r, nil
	}

	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, errs.Fail(errs.Exist, "%s is not empty; nothing was received", quote(dir)).WithHint("name a directory that does not exist, or is empty")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	r = &receipt{ReceivedHandoff: handoff.ReceivedHandoff{Line: line}, Path: dir, Receiver: rand.Text()}
	return r, r.save()
}

// bumpChangeTime sets the change time of a directory to now, by the clock of its file system, and returns this time.
func bumpChangeTime(dir string) (int64, error) {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	if err == nil {
		err = unix.Chmod(dir, st.Mode&0o7777)
	}
	if err == nil {
		err = unix.Stat(dir, &st)
	}

	return st.Ctim.Nano(), err
}

// writeTree writes the tree to the directory, and returns the paths that it could not create.
func (r *receipt) writeTree(ctx context.Context, a *app, objects *handoff.Objects, bar *progress) (skipped []string, err error) {
	root, err := objects.Tree.Get(objects.Source, tree.RootIno)
	if err != nil {
		return nil, err
	}
	// emptyBase has the owner of the handed-off root. So Apply finds no change of the owner, and does not try to
	// change the owner of the directory, which only root may do.
	emptyBase := tree.NewRoot(1, unix.S_IFDIR, root.UID, root.GID, 0)

	done, err := hostdir.Apply(ctx, r.Path, hostdir.ApplyOptions{
		Source: objects.Source, Base: emptyBase, Now: objects.Tree, ConflictRule: threeway.TakeTheirs, Everything: true, Prefetch: objects.Prefetch,
		Progress: func(p stream.Progress) {
			bar.show(service.Progress{What: "receiving", Done: p.Files, Total: r.Ref.Files, Unit: "files", Bytes: objects.PrefetchedBytes.Load()})
		},
	})
	if err != nil {
		return nil, err
	}

	for _, s := range done.Skipped {
		a.note("%s: %s", quote(s.Path), s.Reason)
		skipped = append(skipped, s.Path)
	}

	return skipped, nil
}

// placeTranscript writes the transcript to the path at which the agent looks for it, and returns the path. If
// that file exists already, it writes nothing and returns "".
func (r *receipt) placeTranscript(objects *handoff.Objects) (string, error) {
	packed, err := objects.Transcript()
	if packed == nil || err != nil || !sessionIDPattern().MatchString(r.Session) {
		return "", err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}

	name := filepath.Join(claudeProjectDir(r.Path), r.Session+".jsonl")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}

	_, err = io.Copy(f, z)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(name))
	}

	return name, nil
}

// printSummary prints a summary of the received tree, and the commands to use next.
func (r *receipt) printSummary(a *app, out receivedOutput) {
	a.printf("%s: %s, %s received\n", quote(out.Path), plural(int(out.Files), "file", "files"), service.BytesText(out.Bytes))
	text := "send the changes back: amberfs handoff --back"
	if out.Transcript != "" {
		text = "go on: cd " + shellWord(out.Path) + " && claude --resume " + r.Session + "\n\t" + text
	}
	a.noteText(text)
}

// A sentBackOutput is the output of `amberfs handoff --back` in a received directory.
type sentBackOutput struct {
	ID      string `json:"id"`
	Path    string `json:"path"`
	Changed int    `json:"changed"` // the number of entries that differ from the received tree
	Sent    int64  `json:"sent"`    // bytes
	DryRun  bool   `json:"dry_run,omitempty"`
}

// sendBack sends the changes in a received directory back, so that the machine that handed off the directory can
// merge them.
func sendBack(ctx context.Context, a *app, r *receipt, dryRun bool) error {
	tempDir, err := os.MkdirTemp("", "amberfs-handoff-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tempDir)

	out := sentBackOutput{ID: r.ID, Path: r.Path, DryRun: dryRun}
	if err := r.pushChanges(ctx, a, tempDir, &out); err != nil {
		return explainUnreachable(err)
	}

	return a.print(out, func() {
		a.printf("%s of %s sent back\n", plural(out.Changed, "change", "changes"), quote(out.Path))
		if !dryRun {
			a.note("%s sent; merge it on the other machine: amberfs handoff --back", service.BytesText(out.Sent))
		}
	})
}

// pushChanges reads the changes of the directory since the handoff, and pushes the received tree with these changes. It
// makes a store for new objects in tempDir. If out.DryRun is set, pushChanges sends nothing.
func (r *receipt) pushChanges(ctx context.Context, a *app, tempDir string, out *sentBackOutput) error {
	store, err := cas.Open(tempDir, cas.Options{})
	if err != nil {
		return err
	}
	defer store.Close()

	bar := a.newProgress()
	defer bar.done()

	objects, err := r.Open(ctx, known.OpenCache(os.TempDir()), store)
	if err != nil {
		return err
	}
	defer objects.Close()

	restoreOwner, err := r.ownerRestorer(objects)
	if err != nil {
		return err
	}

	var leftOut hostdir.LeftOut
	o := runs.ReadOptions(r.Path, "", hostdir.Hidden{})
	o.WrittenAt, o.Skip = r.WrittenAt, leftOut.Add
	o.Progress = service.FilesProgress(bar.show, "reading", r.Ref.Files)

	now, err := service.OverlayState(ctx, objects.Source, objects, r.Ref.StateHash(), func(sink stream.Sink) error {
		return hostdir.ReadChanges(ctx, r.Path, objects.Source, objects.Tree, func(e stream.Entry) error {
			if e.Whiteout && slices.Contains(r.Skipped, e.Path) {
				return nil // the entry is missing because it could not be created when the tree was received
			}
			out.Changed++
			restoreOwner(&e.Meta)
			return sink(e)
		}, o)
	})
	if err != nil || out.DryRun {
		return err
	}
	if text := leftOut.Describe(quote(r.Path)); text != "" {
		a.note("%s", text)
	}

	out.Sent, err = objects.SendBack(now, func(parts, of int, sent int64) {
		bar.show(service.Progress{What: "sending back", Done: int64(parts), Total: int64(of), Unit: "parts", Bytes: sent})
	})

	return err
}

// ownerRestorer returns a function that changes the owner and group of an entry. If the entry has the owner of the
// received directory, it gets the owner of the root of the handed-off tree. The same is done with the group.
func (r *receipt) ownerRestorer(objects *handoff.Objects) (func(*stream.Meta), error) {
	root, err := objects.Tree.Get(objects.Source, tree.RootIno)
	if err != nil {
		return nil, err
	}

	var st unix.Stat_t
	if err := unix.Stat(r.Path, &st); err != nil {
		return nil, errs.Fail(cmp.Or(errs.ScriptKind(err), errs.Failed), "%s: %w", quote(r.Path), err)
	}

	return func(m *stream.Meta) {
		if m.UID == st.Uid {
			m.UID = root.UID
		}
		if m.GID == st.Gid {
			m.GID = root.GID
		}
	}, nil
}
