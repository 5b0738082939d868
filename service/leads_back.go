package service

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge"
)

// A look finds absolute paths in a copy of a directory that lead back into the directory.
type look struct {
	dir    string // without a slash at its end
	relink bool   // links get relative targets in the copy, where the directory has them

	links, linked, worktrees, others int
	first                            string // of others
	environments                     map[string]bool
}

// filesOfPaths are files in which programs write absolute paths.
var filesOfPaths = map[string]bool{"pyvenv.cfg": true, "activate": true, "compile_commands.json": true, ".envrc": true, ".git": true}

// sink passes entries on, and looks at each.
func (l *look) sink(to gitbridge.Sink) gitbridge.Sink {
	l.environments = make(map[string]bool)
	return func(e gitbridge.Entry) error {
		switch e.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			l.link(&e)
		case unix.S_IFREG:
			if err := l.file(&e); err != nil {
				return err
			}
		}
		return to(e)
	}
}

func (l *look) link(e *gitbridge.Entry) {
	rel, in := strings.CutPrefix(e.Target+"/", l.dir+"/")
	if !in {
		return
	}
	rel = strings.TrimSuffix(rel, "/")
	if _, err := os.Lstat(filepath.Join(l.dir, rel)); l.relink && err == nil {
		if to, err := filepath.Rel(path.Dir("/"+e.Path), "/"+rel); err == nil {
			e.Target = to
			l.linked++
			return
		}
	}
	l.links++
}

// file looks at the beginning of a file that may have paths.
func (l *look) file(e *gitbridge.Entry) error {
	const most = 1 << 20
	name := path.Base(e.Path)
	script := e.Mode&0o111 != 0
	if e.Hardlink != "" || e.Data == nil || e.Sparse || e.Size > most && !script || !filesOfPaths[name] && !script && path.Ext(name) != ".pth" && !strings.HasPrefix(e.Path, ".direnv/") {
		return nil
	}
	begin := make([]byte, min(e.Size, most))
	if script && !filesOfPaths[name] {
		begin = begin[:min(len(begin), 256)] // its first line
	}
	n, err := io.ReadFull(e.Data, begin)
	begin = begin[:n]
	e.Data = io.MultiReader(bytes.NewReader(begin), e.Data)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return err
	}
	first, _, _ := bytes.Cut(begin, []byte("\n"))
	if script && !filesOfPaths[name] && !bytes.HasPrefix(first, []byte("#!"+l.dir+"/")) || !bytes.Contains(begin, []byte(l.dir)) {
		return nil
	}
	switch dir := path.Dir(e.Path); {
	case name == "pyvenv.cfg":
		l.environments[dir] = true
	case path.Base(dir) == "bin":
		l.environments[path.Dir(dir)] = true
	case name == ".git":
		l.worktrees++
	default:
		if l.others++; l.first == "" {
			l.first = e.Path
		}
	}
	return nil
}

// found says what leads back, "" if nothing does.
func (l *look) found() string {
	var parts []string
	add := func(n int, text string) {
		if n > 0 {
			parts = append(parts, text)
		}
	}
	add(l.linked, count(l.linked, "symbolic link")+" made relative")
	add(l.links, count(l.links, "symbolic link"))
	for env := range l.environments {
		add(1, "the virtual environment "+env+" (programs that it runs change "+l.dir+")")
	}
	add(l.worktrees, count(l.worktrees, "linked worktree"))
	add(l.others, fmt.Sprintf("%s with absolute paths, such as %s", count(l.others, "file"), l.first))
	if len(parts) == 0 {
		return ""
	}
	text := "in the copy, this leads back into " + l.dir + ":\n\t" + strings.Join(parts, "\n\t") +
		"\n\t`amberfs run --from` has no such paths: there the copy is at the same path"
	if l.links > 0 && !l.relink {
		text += "\n\t--relink makes the links relative"
	}
	return text
}
