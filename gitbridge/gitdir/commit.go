package gitdir

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrMeanwhile means that the receiving repository changed after the plan was made, or that another process
// has locked it.
var ErrMeanwhile = errors.New("the git directory changed meanwhile, or git is at work in it")

// Commit carries out the plan. The caller must have called AddObjects. After an error or a kill of this process, a
// new plan of the same merge completes the work. Commit writes the index of the new HEAD before it moves HEAD: a
// user's commit in between then does not revert the changes of the new HEAD. Errors: ErrMeanwhile.
func (p *Plan) Commit(ctx context.Context) error {
	if p.Empty() {
		return nil
	}
	r := p.m.Ours
	lock, err := lockIndex(r.Dir)
	if err != nil {
		return err
	}
	defer lock.release()

	now, err := r.Read("index")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	head, err := readLine(r, "HEAD")
	if err != nil {
		return err
	}

	disk, err := indexNow(p, now)
	if err != nil || !disk || head != p.ours.head {
		return errors.Join(ErrMeanwhile, err)
	}

	if err := p.receiver.writeAll(p.work.files); err != nil {
		return err
	}

	if len(p.index.delta) > 0 {
		index, err := p.index.newIndex(ctx)
		if err == nil {
			_, err = lock.Write(index)
		}
		if err == nil {
			err = errors.Join(lock.Sync(), lock.rename())
		}
		if err != nil {
			return err
		}
	}

	if err := p.receiver.writeAll(p.work.last); err != nil {
		return err
	}

	if err := p.receiver.moveRefs(ctx, p.refs); err != nil {
		is, rerr := readState(r)
		if lock.renamed && len(now) > 0 && rerr == nil && is.resolve(is.head) != p.index.heads.to {
			at, written := filepath.Join(r.Dir, "index"), time.Unix(0, p.ours.indexMtime)
			err = errors.Join(err, replaceFile(at, now), os.Chtimes(at, written, written))
		}
		return err
	}

	return nil
}

// indexNow reports whether now, the present index, has the entries for which the plan was made. The bytes may differ:
// git status rewrites the index.
func indexNow(p *Plan, now []byte) (bool, error) {
	if bytes.Equal(now, p.ours.wasIndex) || len(p.index.delta) == 0 {
		return true, nil
	}
	entries, err := parseIndex(now, p.ours.idLen)
	return err == nil && slices.EqualFunc(entries, p.ours.entries(), IndexEntry.same), nil
}

// AddObjects adds the objects that the plan needs, and all objects that can be reached from them, to the receiving
// repository.
func (p *Plan) AddObjects(ctx context.Context) error {
	if len(p.tips) == 0 {
		return nil
	}

	tips := p.refs.values(false)
	if id := p.index.heads.was; id != "" {
		tips = append(tips, id)
	}
	missing, err := p.receiver.missing(ctx, tips)
	if err != nil {
		return err
	}

	revs := strings.Join(p.tips, "\n") + "\n"
	for _, id := range tips {
		if !missing[id] {
			revs += "^" + id + "\n"
		}
	}

	name, err := p.git.ask(ctx, nil, strings.NewReader(revs), "pack-objects", "--revs", "--quiet", "--delta-base-offset", "--missing=allow-any", filepath.Join(p.git.dir, "in"))
	if err != nil {
		return fmt.Errorf("collecting the objects: %w", err)
	}

	pack, err := os.Open(filepath.Join(p.git.dir, "in-"+strings.TrimSpace(name)+".pack"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there are no objects to add
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
	const few = 100 // objects; git fetch has the same limit (fetch.unpackLimit)
	switch n := binary.BigEndian.Uint32(head[8:]); {
	case n == 0:
		return nil
	case n < few:
		args = []string{"unpack-objects", "-q"}
	}

	if _, err := p.receiver.ask(ctx, nil, pack, args...); err != nil {
		return fmt.Errorf("adding the objects: %w", err)
	}

	if missing, err = p.receiver.missing(ctx, p.git.ends); err != nil {
		return err
	}
	ends := slices.DeleteFunc(slices.Clone(p.git.ends), func(id string) bool { return missing[id] })
	if len(ends) > 0 {
		p.work.files["shallow"] = []byte(string(p.ours.shallow) + strings.Join(ends, "\n") + "\n")
	}
	if p.m.Ours.setting("extensions.partialclone") != "" {
		return nil // in a partial clone, git fetches missing objects when it needs them
	}

	env := []string{"GIT_NO_REPLACE_OBJECTS=1"}
	if len(ends) > 0 {
		env = append(env, "GIT_SHALLOW_FILE="+filepath.Join(p.git.dir, "shallow"))
	}
	if _, err := p.receiver.ask(ctx, env, strings.NewReader(revs), "rev-list", "--objects", "--quiet", "--stdin"); err != nil {
		return fmt.Errorf("the objects that came are not complete: %w", err)
	}

	return nil
}

// Refresh has git compare the files of the working tree for which the new index has no times and sizes, and record
// these. Refresh runs no git in a repository of another user: its settings could name programs.
func (p *Plan) Refresh(ctx context.Context) {
	var st unix.Stat_t
	if len(p.index.delta) == 0 || p.m.Ours.Work == "" || unix.Stat(p.m.Ours.Dir, &st) != nil || int(st.Uid) != os.Geteuid() {
		return
	}

	args := []string{"add", "--refresh", "--pathspec-from-file=-", "--pathspec-file-nul"}
	const few = 1000 // paths; git compares each of them with all paths of the index
	if len(p.index.stale) > few {
		args = []string{"update-index", "-q", "--refresh"}
	}
	_, _ = p.receiver.ask(ctx, nil, strings.NewReader(strings.Join(p.index.stale, "\x00")), args...) // after an error, the next git status compares the files
}
