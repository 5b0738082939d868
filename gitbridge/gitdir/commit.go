package gitdir

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy means that the receiving repository changed after the plan was made, or that another process
// has locked it.
var ErrBusy = errors.New("the git directory changed meanwhile, or git is at work in it")

// CarryOut carries out the plan. The caller must have called AddObjects. After an error or a kill of this process, a
// new plan of the same merge completes the work. CarryOut writes the index of the new HEAD before it moves HEAD: a
// user's commit in between then does not revert the changes of the new HEAD. Errors: ErrBusy.
func (p *Plan) CarryOut(ctx context.Context) error {
	if p.Empty() {
		return nil
	}
	r := p.merge.Ours
	lock, err := lockIndex(r.Dir)
	if err != nil {
		return err
	}
	defer lock.release()

	now, err := readState(r)
	if err != nil {
		return err
	}
	// The index may have other bytes than in the plan: git status rewrites it.
	hasPlannedIndex := len(p.index.newEntries) == 0 || bytes.Equal(now.index, p.ours.indexFile) || now.sameIndex(p.ours)
	if !hasPlannedIndex || now.head != p.ours.head {
		return ErrBusy
	}

	if err := p.receiver.writeFiles(p.files.contents); err != nil {
		return err
	}

	if len(p.index.newEntries) > 0 {
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

	if err := p.receiver.writeFiles(p.files.afterIndex); err != nil {
		return err
	}

	if err := p.receiver.moveRefs(ctx, p.refs); err != nil {
		err = refError(err)
		after, rerr := readState(r)
		if lock.renamed && len(now.index) > 0 && rerr == nil && after.resolve(after.head) != p.index.heads.oursAfter {
			at, written := filepath.Join(r.Dir, "index"), time.Unix(0, p.ours.indexMtime)
			err = errors.Join(err, replaceFile(at, now.index), os.Chtimes(at, written, written))
		}
		return err
	}

	return nil
}

// AddObjects adds to the receiving repository the objects that the plan needs, and all objects that can be
// reached from them.
func (p *Plan) AddObjects(ctx context.Context) error {
	if len(p.tips) == 0 {
		return nil
	}

	tips := p.refs.refValues(false)
	if id := p.index.heads.oursBefore; id != "" {
		tips = append(tips, id)
	}
	missing, err := p.receiver.missingObjects(ctx, tips)
	if err != nil {
		return err
	}

	present := slices.DeleteFunc(tips, func(id string) bool { return missing[id] })
	name, err := p.scratch.ask(ctx, nil, revisions(p.tips, present), "pack-objects", "--revs", "--non-empty", "--quiet", "--delta-base-offset", "--missing=allow-any", filepath.Join(p.scratch.gitDir, "in"))
	if err != nil {
		return fmt.Errorf("collecting the objects: %w", err)
	}

	name = strings.TrimSpace(name)
	if name == "" {
		return nil // there are no objects to add
	}
	pack, err := os.Open(filepath.Join(p.scratch.gitDir, "in-"+name+".pack"))
	if err != nil {
		return err
	}
	defer pack.Close()

	var head [12]byte
	if _, err := pack.ReadAt(head[:], 0); err != nil {
		return err
	}

	args := []string{"index-pack", "--stdin"}
	const unpackLimit = 100 // a number of objects; git fetch has the same limit (fetch.unpackLimit)
	if binary.BigEndian.Uint32(head[8:]) < unpackLimit {
		args = []string{"unpack-objects", "-q"}
	}

	if _, err := p.receiver.ask(ctx, nil, pack, args...); err != nil {
		return fmt.Errorf("adding the objects: %w", err)
	}

	if missing, err = p.receiver.missingObjects(ctx, p.scratch.shallowEnds); err != nil {
		return err
	}
	ends := slices.DeleteFunc(slices.Clone(p.scratch.shallowEnds), func(id string) bool { return missing[id] })
	if len(ends) > 0 {
		p.files.contents["shallow"] = []byte(string(p.ours.shallowFile) + strings.Join(ends, "\n") + "\n")
	}
	if p.merge.Ours.setting("extensions.partialclone") != "" {
		return nil // the repository is a partial clone, so git fetches missing objects when it needs them
	}

	if _, err := p.receiver.ask(ctx, p.scratch.shallowEnv(), revisions(p.tips, present), "rev-list", "--objects", "--quiet", "--stdin"); err != nil {
		return fmt.Errorf("the objects that came are not complete: %w", err)
	}

	return nil
}

// RefreshIndex has git compare the files of the working tree for which the new index has no times and sizes,
// and record the times and sizes. It does nothing in a repository of another user, whose settings could name
// programs that git would run.
func (p *Plan) RefreshIndex(ctx context.Context) {
	if len(p.index.newEntries) == 0 || p.merge.Ours.Worktree == "" || !isOwn(p.merge.Ours.Dir) {
		return
	}

	args := []string{"add", "--refresh", "--pathspec-from-file=-", "--pathspec-file-nul"}
	const maxPathspecs = 1000 // the number of paths in one call is limited, because git compares each with all paths of the index
	if len(p.index.staleFiles) > maxPathspecs {
		args = []string{"update-index", "-q", "--refresh"}
	}
	_, _ = p.receiver.ask(ctx, nil, strings.NewReader(strings.Join(p.index.staleFiles, "\x00")), args...) // after an error, the next git status compares the files
}

// isOwn reports whether a directory belongs to the user of this process.
func isOwn(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && int(st.Uid) == os.Geteuid()
}
