package service

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/stream"
)

// FillOptions are the options of FillStore.
type FillOptions struct {
	Exclude      []string // directories that are not copied
	Hidden       hostdir.Hidden
	ShowProgress func(Progress)
	// Skip is called for each path that cannot be read and is left out of the copy.
	Skip func(path string, reason error)
	// ReportPaths, if set, is called once if the copy has absolute paths that lead back into the directory. text
	// describes them. If Relink is set, symbolic links with such paths become relative in the copy.
	ReportPaths func(text string)
	Relink      bool
	// If StubUnreadable is set, files that cannot be read are copied without contents. Otherwise they are skipped.
	StubUnreadable bool
}

func (o FillOptions) readOptions() hostdir.ReadOptions {
	return hostdir.ReadOptions{
		Options: stream.Options{Skip: o.Skip, Progress: FilesProgress(o.ShowProgress, "importing", 0)},
		Exclude: o.Exclude, Hidden: o.Hidden, Git: gitbridge.HostGit{}, ReadDenied: true, StubUnreadable: o.StubUnreadable,
	}
}

// FilesProgress returns a function that shows how many files were read or written. total is the number of all files, or 0.
func FilesProgress(show func(Progress), what string, total int64) func(stream.Progress) {
	return func(p stream.Progress) {
		show(Progress{What: what, Done: p.Files, Total: total, Unit: "files", Bytes: p.Bytes})
	}
}

// FillStore copies a directory into the empty workspace of a new store.
func FillStore(ctx context.Context, s *snapshot.Store, dir string, o FillOptions) error {
	defer s.BeginImport()()

	dest := importer.Destination{DirMeta: stream.Meta{Mode: 0o755}, IsWorkspaceRoot: true}
	st, err := buildTree(ctx, s.Source(), s.CAS(), dest, func(b *importer.Builder) error {
		if o.ReportPaths == nil {
			return hostdir.Read(ctx, dir, b.Add, o.readOptions())
		}
		scan := &pathScan{dir: dir, relink: o.Relink}
		if err := hostdir.Read(ctx, dir, scan.wrapSink(b.Add), o.readOptions()); err != nil {
			return err
		}
		if text := scan.report(); text != "" {
			o.ReportPaths(text)
		}

		return nil
	})
	if err != nil {
		return err
	}

	return s.Main().SetFirstState(st, actors.Caller{UID: uint32(os.Getuid()), PID: uint32(os.Getpid())})
}

// A pathScan finds absolute paths in a copy of a directory that lead back into the directory.
type pathScan struct {
	dir    string // without a slash at its end
	relink bool   // symbolic links to existing paths in dir get relative targets in the copy

	absoluteLinks, relinked int             // numbers of symbolic links: those that stay absolute, and those that were made relative
	worktrees               int             // the number of files .git of linked worktrees
	otherFiles              int             // the number of other files with such paths
	firstOther              string          // the path of the first of these files
	virtualenvs             map[string]bool // directories of Python's virtual environments
}

// filesWithPaths are the names of files into which programs write absolute paths.
var filesWithPaths = map[string]bool{"pyvenv.cfg": true, "activate": true, "compile_commands.json": true, ".envrc": true, ".git": true}

// wrapSink returns a sink that scans each entry, and then passes it to another sink.
func (l *pathScan) wrapSink(next stream.Sink) stream.Sink {
	l.virtualenvs = make(map[string]bool)
	return func(e stream.Entry) error {
		switch e.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			l.scanLink(&e)
		case unix.S_IFREG:
			if err := l.scanFile(&e); err != nil {
				return err
			}
		}
		return next(e)
	}
}

func (l *pathScan) scanLink(e *stream.Entry) {
	rel, in := strings.CutPrefix(e.Target+"/", l.dir+"/")
	if !in {
		return
	}

	rel = strings.TrimSuffix(rel, "/")
	if _, err := os.Lstat(filepath.Join(l.dir, rel)); l.relink && err == nil {
		if to, err := filepath.Rel(path.Dir("/"+e.Path), "/"+rel); err == nil {
			e.Target = to
			l.relinked++
			return
		}
	}

	l.absoluteLinks++
}

// scanFile searches the beginning of a file for absolute paths. It replaces e.Data by a reader that again returns the
// whole file.
func (l *pathScan) scanFile(e *stream.Entry) error {
	const maxScan = 1 << 20
	name := path.Base(e.Path)
	isScript := e.Mode&0o111 != 0
	if e.Hardlink != "" || e.Data == nil || e.Sparse || e.Size > maxScan && !isScript || !filesWithPaths[name] && !isScript && path.Ext(name) != ".pth" && !strings.HasPrefix(e.Path, ".direnv/") {
		return nil
	}

	head := make([]byte, min(e.Size, maxScan))
	if isScript && !filesWithPaths[name] {
		head = head[:min(len(head), 256)] // only the first line of a script, with its interpreter
	}

	n, err := io.ReadFull(e.Data, head)
	head = head[:n]
	e.Data = io.MultiReader(bytes.NewReader(head), e.Data)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return err
	}

	first, _, _ := bytes.Cut(head, []byte("\n"))
	if isScript && !filesWithPaths[name] && !bytes.HasPrefix(first, []byte("#!"+l.dir+"/")) || !bytes.Contains(head, []byte(l.dir)) {
		return nil
	}

	switch dir := path.Dir(e.Path); {
	case name == "pyvenv.cfg":
		l.virtualenvs[dir] = true
	case path.Base(dir) == "bin":
		l.virtualenvs[path.Dir(dir)] = true
	case name == ".git":
		l.worktrees++
	default:
		if l.otherFiles++; l.firstOther == "" {
			l.firstOther = e.Path
		}
	}

	return nil
}

// report returns a text about the paths that were found, "" if there are none.
func (l *pathScan) report() string {
	var parts []string
	add := func(n int, text string) {
		if n > 0 {
			parts = append(parts, text)
		}
	}

	add(l.relinked, countText(l.relinked, "symbolic link")+" made relative")
	add(l.absoluteLinks, countText(l.absoluteLinks, "symbolic link"))
	for env := range l.virtualenvs {
		add(1, "the virtual environment "+env+" (programs that it runs change "+l.dir+")")
	}

	add(l.worktrees, countText(l.worktrees, "linked worktree"))
	add(l.otherFiles, fmt.Sprintf("%s with absolute paths, such as %s", countText(l.otherFiles, "file"), l.firstOther))
	if len(parts) == 0 {
		return ""
	}

	text := "in the copy, this leads back into " + l.dir + ":\n\t" + strings.Join(parts, "\n\t") +
		"\n\t`amberfs run --from` has no such paths: there the copy is at the same path"
	if l.absoluteLinks > 0 && !l.relink {
		text += "\n\t--relink makes the links relative"
	}

	return text
}
