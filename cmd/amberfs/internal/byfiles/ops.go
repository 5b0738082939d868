package byfiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

type op func(ctx context.Context, w Workspace, args json.RawMessage) (any, error)

var ops = map[string]op{
	"list":     with(func(_ context.Context, w Workspace, _ struct{}) (any, error) { return w.opList() }),
	"show":     with(func(_ context.Context, w Workspace, a api.Name) (any, error) { return w.info(a.Name) }),
	"snapshot": with(opSnapshot),
	"rename":   with(opRename),
	"remove":   with(opRemove),
	"restore":  with(opRestore),
	"revert":   with(opRevert),
	"diff":     with(opDiff),
	"fork":     with(opFork),
	"end-fork": with(opEndFork),
	"forks":    with(opForks),
	"status":   with(opStatus),
	"policy":   with(opPolicy),
	"log":      with(opLog),
}

func with[A any](fn func(context.Context, Workspace, A) (any, error)) op {
	return func(ctx context.Context, w Workspace, raw json.RawMessage) (any, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, err
			}
		}
		return fn(ctx, w, args)
	}
}

// Do answers a request as the daemon does on its socket: name and arguments are
// the same, and so is the result.
func (w Workspace) Do(ctx context.Context, name string, args json.RawMessage, result any) error {
	f, ok := ops[name]
	if !ok {
		return ErrCannot
	}
	r, err := f(ctx, w, args)
	if err != nil || result == nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, result)
}

func (w Workspace) opList() (any, error) {
	infos, err := w.list()
	return api.List{Snapshots: infos}, err
}

func opSnapshot(ctx context.Context, w Workspace, a api.Snapshot) (any, error) {
	if len(a.Labels) > 0 || a.Expires != nil || a.Pin {
		return nil, ErrCannot
	}
	l, err := w.command("create", a.Name+" "+a.Message)
	if err != nil {
		return nil, err
	}
	for {
		i, err := w.info(l.Name)
		if err != nil || !a.Wait || i.Sealed {
			return i, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func opRename(_ context.Context, w Workspace, a api.Rename) (any, error) {
	i, err := w.info(a.From)
	if err != nil {
		return nil, err
	}
	// Not os.Rename, which looks first; and rename(2) would replace nothing here.
	if err := unix.Renameat2(unix.AT_FDCWD, w.control(i.Name), unix.AT_FDCWD, w.control(a.To), unix.RENAME_NOREPLACE); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return nil, fail.New(fail.Exists, "name in use: there is a snapshot %q already", a.To)
		}
		return nil, w.explain("create", err)
	}
	return w.info(a.To)
}

func opRemove(_ context.Context, w Workspace, a api.Names) (any, error) {
	var infos []snapshot.Info
	seen := map[string]bool{}
	for _, name := range a.Names {
		i, err := w.info(name)
		if err != nil {
			return nil, err
		}
		if !seen[i.Name] {
			seen[i.Name] = true
			infos = append(infos, i)
		}
	}
	done := api.Names{Names: []string{}}
	for _, i := range infos {
		if err := unix.Rmdir(w.control(i.Name)); err != nil {
			return nil, w.explain("create", err)
		}
		done.Names = append(done.Names, i.Name)
	}
	return done, nil
}

func opRestore(_ context.Context, w Workspace, a api.Restore) (any, error) {
	if a.DryRun {
		return nil, ErrCannot
	}
	line := quoteField(a.Name)
	for _, p := range a.Paths {
		line += " " + quoteField(string(p))
	}
	l, err := w.command("restore", line)
	if err != nil {
		return nil, err
	}
	done := api.Restored{Snapshot: l.Snapshot, Changed: l.Changed, Undo: l.Undo, Paths: []api.PathChange{}}
	if l.Changed == 0 {
		return done, nil
	}
	files, err := w.changed(l.Undo, "")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		action := map[string]string{"A": "created", "D": "deleted"}[f.Status]
		if action == "" {
			action = "modified"
		}
		done.Paths = append(done.Paths, api.PathChange{Path: f.Path, Action: action})
	}
	return done, nil
}

func opRevert(ctx context.Context, w Workspace, a api.Revert) (any, error) {
	if a.Name == "" {
		return nil, ErrCannot
	}
	return opRestore(ctx, w, api.Restore{Name: a.Name, Paths: []snapshot.BytePath{a.Path}})
}

// query names a generated file about one or two snapshots.
func query(what, a, b string) string {
	if b == "" {
		return what + "@" + a
	}
	return what + "@" + a + ".." + b
}

// changed reads stat@A..B.
func (w Workspace) changed(a, b string) ([]api.DiffedFile, error) {
	data, err := os.ReadFile(w.control(query("stat", a, b)))
	if err != nil {
		return nil, err
	}
	out := []api.DiffedFile{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) < 2 || f[0] == "" {
			return nil, fmt.Errorf("reading stat@%s: strange line %q", a, line)
		}
		d := api.DiffedFile{Status: f[0][:1], Path: unquote(f[len(f)-1])}
		if len(f) == 3 {
			d.From = unquote(f[1])
			_, _ = fmt.Sscanf(f[0][1:], "%d", &d.Score)
		}
		out = append(out, d)
	}
	return out, nil
}

// unquote undoes the way in which git writes unusual names.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	var b strings.Builder
	for s = s[1 : len(s)-1]; s != ""; {
		if s[0] != '\\' || len(s) < 2 {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		if i := strings.IndexByte(`abtnvfr"\`, s[1]); i >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r\"\\"[i])
			s = s[2:]
			continue
		}
		var c byte
		n := min(4, len(s))
		_, _ = fmt.Sscanf(s[1:n], "%o", &c)
		b.WriteByte(c)
		s = s[n:]
	}
	return b.String()
}

func opDiff(_ context.Context, w Workspace, a api.Diff) (any, error) {
	if len(a.Paths) > 0 || a.Binary || a.Format == "stat" {
		return nil, ErrCannot
	}
	for _, name := range []string{a.A, a.B} {
		if _, err := w.info(name); err != nil && name != "" {
			return nil, err
		}
	}
	if a.Format == "json" {
		files, err := w.changed(a.A, a.B)
		return api.DiffResult{Files: len(files), Paths: files}, err
	}
	what := "diff"
	if a.Format == "name-status" {
		what = "stat"
	}
	f, err := os.Open(w.control(query(what, a.A, a.B)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, err = io.Copy(w.Output, f)
	return api.DiffResult{}, err
}

func opFork(_ context.Context, w Workspace, a api.Fork) (any, error) {
	if a.Snapshot == "" {
		if err := unix.Mkdir(filepath.Join(w.Root, ".forks", a.Name), 0o777); err != nil {
			if errors.Is(err, unix.EEXIST) {
				return nil, fail.New(fail.Exists, "name in use: there is a fork %q already; choose another name", a.Name)
			}
			return nil, w.explain("fork", err)
		}
	} else if _, err := w.command("fork", quoteField(a.Snapshot)+" "+quoteField(a.Name)); err != nil {
		return nil, err
	}
	return api.Forked{Name: a.Name, Snapshot: a.Snapshot, Path: w.fork(a.Name).Root}, nil
}

func opEndFork(_ context.Context, w Workspace, a api.Name) (any, error) {
	if err := unix.Rmdir(w.fork(a.Name).Root); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, fail.New(fail.NotFound, "no such fork: %q; see `ls .forks` or `amberfs forks`", a.Name)
		}
		return nil, w.explain("fork", err)
	}
	var l last
	err := w.readJSON("fork", &l)
	return api.Ended{Name: a.Name, Snapshot: l.Snapshot}, err
}

func opForks(_ context.Context, w Workspace, _ struct{}) (any, error) {
	entries, err := os.ReadDir(filepath.Join(w.Root, ".forks"))
	if err != nil {
		return nil, err
	}
	out := api.Forks{Forks: []snapshot.ForkInfo{}}
	for _, e := range entries {
		var st snapshot.Status
		f := w.fork(e.Name())
		origin, err := f.info("origin")
		if err == nil {
			err = f.readJSON("status", &st)
		}
		if err != nil {
			continue // ended meanwhile
		}
		out.Forks = append(out.Forks, snapshot.ForkInfo{
			Name: e.Name(), Origin: origin.Parent, Created: origin.Created, Snapshots: st.Snapshots, Files: st.Files, Bytes: st.LogicalBytes,
		})
	}
	return out, nil
}

func opStatus(_ context.Context, w Workspace, _ struct{}) (any, error) {
	var st api.Status
	err := w.readJSON("status", &st)
	st.Uptime = time.Since(st.Started).Seconds()
	return st, err
}

func opPolicy(_ context.Context, w Workspace, a api.Policy) (any, error) {
	if len(a.Set) > 0 {
		if err := os.WriteFile(w.control("policy"), append(bytes.TrimSpace(a.Set), '\n'), 0); err != nil {
			return nil, w.explain("create", err)
		}
	}
	var doc json.RawMessage
	err := w.readJSON("policy", &doc)
	return doc, err
}

func opLog(_ context.Context, w Workspace, a api.Log) (any, error) {
	if a.Follow || a.Path != "" && a.Path != "." {
		return nil, ErrCannot
	}
	b, err := os.ReadFile(w.control("log"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		if err := w.OnItem(bytes.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	return struct{}{}, nil
}
