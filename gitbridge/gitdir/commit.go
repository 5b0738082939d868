package gitdir

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrMeanwhile means that the receiving repository is not as it was when the plan was made, or that
// git is at work in it.
var ErrMeanwhile = errors.New("the git directory changed meanwhile, or git is at work in it")

// git calls git on the receiving repository.
func (p *Plan) own(ctx context.Context, env []string, stdin io.Reader, args ...string) ([]byte, error) {
	return p.m.Git(ctx, "", env, stdin, append([]string{"--git-dir=" + p.m.Ours.Dir}, args...)...)
}

// Commit carries the plan out, after AddObjects. After an error, or if this process is killed, the
// same merge planned again completes it. The index of a new HEAD comes before that HEAD, so that no
// commit made in between takes anything back.
func (p *Plan) Commit(ctx context.Context) error {
	if p.Empty() {
		return nil
	}
	r := p.m.Ours
	lock, err := os.OpenFile(filepath.Join(r.Dir, "index.lock"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s exists", ErrMeanwhile, filepath.Join(r.Dir, "index.lock"))
	}
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		lock.Close()
		if !renamed {
			_ = os.Remove(lock.Name()) // it is this one's
		}
	}()
	now, err := r.Read("index")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	head, err := line(r, "HEAD")
	if err != nil {
		return err
	}
	disk, err := indexNow(p, now)
	if err != nil || !disk || head != p.ours.head {
		return errors.Join(ErrMeanwhile, err)
	}
	for _, name := range sortedNames(p.files) {
		if err := p.write(name, p.files[name]); err != nil {
			return err
		}
	}
	if len(p.delta) > 0 {
		index, err := p.newIndex(ctx)
		if err == nil {
			_, err = lock.Write(index)
		}
		if err == nil {
			err = errors.Join(lock.Sync(), os.Rename(lock.Name(), filepath.Join(r.Dir, "index")))
		}
		if err != nil {
			return err
		}
		renamed = true
	}
	if err := p.moveRefs(ctx); err != nil {
		if renamed && len(now) > 0 {
			err = errors.Join(err, replaceFile(filepath.Join(r.Dir, "index"), now))
		}
		return err
	}
	return nil
}

// indexNow reports whether the index is still the one that the plan was made for. git status may
// have written it anew meanwhile.
func indexNow(p *Plan, now []byte) (bool, error) {
	if bytes.Equal(now, p.ours.wasIndex) || len(p.delta) == 0 {
		return true, nil
	}
	entries, err := parseIndex(now, p.ours.idLen)
	return err == nil && slices.EqualFunc(entries, p.ours.entries, IndexEntry.same), nil
}

func sortedNames(files map[string][]byte) (out []string) {
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// write writes or removes a file of the receiving repository.
func (p *Plan) write(name string, data []byte) error {
	at := p.m.Ours.place(name)
	if data == nil {
		err := os.Remove(at)
		if dir := filepath.Dir(at); err == nil && dir != p.m.Ours.Dir {
			_ = os.Remove(dir) // if it is empty
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	return replaceFile(at, data)
}

// replaceFile gives a file other bytes, and its permissions.
func replaceFile(at string, data []byte) error {
	mode := fs.FileMode(0o666)
	if info, err := os.Lstat(at); err == nil {
		mode = info.Mode().Perm()
	}
	temp := at + ".amberfs"
	_ = os.Remove(temp) // one that was left by a killed process
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

// AddObjects adds the objects that the plan needs, with all that they lead to.
func (p *Plan) AddObjects(ctx context.Context) error {
	if len(p.tips) == 0 {
		return nil
	}
	var not []string
	for _, id := range p.ours.refs {
		if p.ours.isID(id) {
			not = append(not, id)
		}
	}
	if id := p.wasHead; id != "" {
		not = append(not, id)
	}
	slices.Sort(not)
	if not = slices.Compact(not); !bytes.Equal(p.ours.shallow, p.theirs.shallow) {
		not = nil // commits below those of the receiving side may be missing there
	}
	have, err := p.present(ctx, not)
	if err != nil {
		return err
	}
	revs := strings.Join(p.tips, "\n") + "\n"
	for _, id := range have {
		revs += "^" + id + "\n"
	}
	name, err := p.ask(ctx, nil, revs, "pack-objects", "--revs", "--quiet", "--delta-base-offset", "--missing=allow-any", filepath.Join(p.git, "in"))
	if err != nil {
		return fmt.Errorf("collecting the objects: %w", err)
	}
	pack, err := os.Open(filepath.Join(p.git, "in-"+strings.TrimSpace(name)+".pack"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there are none
	}
	if err != nil {
		return err
	}
	defer pack.Close()
	var head [12]byte
	if _, err := pack.ReadAt(head[:], 0); err != nil {
		return err
	}
	args := []string{"index-pack", "--stdin"}
	const few = 100 // as git fetch
	switch n := binary.BigEndian.Uint32(head[8:]); {
	case n == 0:
		return nil
	case n < few:
		args = []string{"unpack-objects", "-q"}
	}
	if _, err := p.own(ctx, nil, pack, args...); err != nil {
		return fmt.Errorf("adding the objects: %w", err)
	}
	if !bytes.Equal(p.ours.shallow, p.theirs.shallow) && p.m.Base != nil {
		if was, _ := p.m.Base.Read("shallow"); bytes.Equal(was, p.ours.shallow) {
			p.files["shallow"] = p.theirs.shallow
			return nil
		}
	}
	if p.m.Ours.partial() {
		return nil // some are fetched when they are needed
	}
	if _, err := p.own(ctx, []string{"GIT_NO_REPLACE_OBJECTS=1"}, strings.NewReader(revs), "rev-list", "--objects", "--quiet", "--stdin"); err != nil {
		return fmt.Errorf("the objects that came are not complete: %w", err)
	}
	return nil
}

// present returns those of some objects that the receiving side has.
func (p *Plan) present(ctx context.Context, ids []string) (out []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	text, err := p.own(ctx, nil, strings.NewReader(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check")
	for l := range strings.Lines(string(text)) {
		if id, rest, _ := strings.Cut(strings.TrimSpace(l), " "); rest != "missing" {
			out = append(out, id)
		}
	}
	return out, err
}

// newIndex is the index of the receiving side with the delta.
func (p *Plan) newIndex(ctx context.Context) ([]byte, error) {
	at := filepath.Join(p.git, "new-index")
	_ = os.Remove(at) // of an earlier try
	if len(p.ours.index) > 0 {
		if err := os.WriteFile(at, p.ours.index, 0o600); err != nil {
			return nil, err
		}
	}
	env := []string{"GIT_INDEX_FILE=" + at}
	var info, skip strings.Builder
	zero := strings.Repeat("0", 2*p.ours.idLen)
	done := make(map[string]bool)
	for _, e := range p.delta {
		if !done[e.Path] {
			done[e.Path] = true
			fmt.Fprintf(&info, "0 %s\t%s\x00", zero, e.Path)
		}
	}
	for _, e := range p.delta {
		if e.Mode == 0 {
			continue
		}
		fmt.Fprintf(&info, "%o %s %d\t%s\x00", e.Mode, e.ID, e.Stage, e.Path)
		if e.Skip {
			fmt.Fprintf(&skip, "%s\x00", e.Path)
		}
	}
	if _, err := p.ask(ctx, env, info.String(), "update-index", "-z", "--index-info"); err != nil {
		return nil, err
	}
	if skip.Len() > 0 {
		if _, err := p.ask(ctx, append(env, "GIT_WORK_TREE="+p.git), skip.String(), "update-index", "-z", "--skip-worktree", "--stdin"); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(at)
}

// moveRefs moves the refs if they still have their old values, and HEAD.
func (p *Plan) moveRefs(ctx context.Context) error {
	zero := strings.Repeat("0", 2*p.ours.idLen)
	message := "amberfs: from " + refName(p.m.Name)
	if p.head != "" && p.ours.isID(p.ours.head) && p.ours.isID(p.head) {
		if _, err := p.own(ctx, nil, nil, "update-ref", "-m", message, "--no-deref", "HEAD", p.head, p.ours.head); err != nil {
			return refError(err)
		}
		p.head = ""
	}
	for _, gone := range []bool{false, true} { // a branch may go for the directory of another one
		var lines strings.Builder
		for _, u := range p.updates {
			if u.name == stash && u.new != "" {
				if err := p.write(stash, []byte(u.new+"\n")); err != nil {
					return err
				}
				continue
			}
			if (u.new == "") == gone {
				continue
			}
			switch {
			case u.new == "":
				fmt.Fprintf(&lines, "delete %s %s\n", u.name, u.old)
			case u.old == "":
				fmt.Fprintf(&lines, "update %s %s %s\n", u.name, u.new, zero)
			default:
				fmt.Fprintf(&lines, "update %s %s %s\n", u.name, u.new, u.old)
			}
		}
		if lines.Len() == 0 {
			continue
		}
		if _, err := p.own(ctx, nil, strings.NewReader("option no-deref\n"+lines.String()), "update-ref", "-m", message, "--no-deref", "--stdin"); err != nil {
			return refError(err)
		}
	}
	for name, target := range p.symrefs {
		if _, err := p.own(ctx, nil, nil, "symbolic-ref", "-m", message, name, target); err != nil {
			return refError(err)
		}
	}
	if target, ok := strings.CutPrefix(p.head, "ref: "); ok {
		if _, err := p.own(ctx, nil, nil, "symbolic-ref", "-m", message, "HEAD", target); err != nil {
			return refError(err)
		}
	} else if p.head != "" {
		if _, err := p.own(ctx, nil, nil, "update-ref", "-m", message, "--no-deref", "HEAD", p.head); err != nil {
			return refError(err)
		}
	}
	return nil
}

func refError(err error) error {
	if strings.Contains(err.Error(), "cannot lock ref") || strings.Contains(err.Error(), "but expected") {
		return fmt.Errorf("%w: %w", ErrMeanwhile, err)
	}
	return err
}

// Refresh has git look at the files of the working tree that the index does not know. It is skipped
// in a repository of another user, whose settings name programs.
func (p *Plan) Refresh(ctx context.Context) {
	var st unix.Stat_t
	if len(p.delta) == 0 || p.m.Ours.Work == "" || unix.Stat(p.m.Ours.Dir, &st) != nil || int(st.Uid) != os.Geteuid() {
		return
	}
	_, _ = p.m.Git(ctx, p.m.Ours.Work, nil, nil, "--git-dir="+p.m.Ours.Dir, "--work-tree="+p.m.Ours.Work, "update-index", "-q", "--refresh") // git does it again
}

// partial reports whether objects of a repository are fetched when they are needed.
func (r *Repo) partial() bool {
	text, _ := readSmall(filepath.Join(r.Common, "config"))
	return parseConfig(text).last("extensions.partialclone") != ""
}
