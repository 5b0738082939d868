package gitbridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// maxMerged is the size in bytes up to which a file is merged, and maxMerges that
	// of all such files together.
	maxMerged = 16 << 20
	maxMerges = 128 << 20
)

// bothChanged plans a file that changed on both sides. It reports whether there may be no conflict:
// a text is merged later.
func (a *applying) bothChanged(s *applyStep) (decided bool, err error) {
	in, ok, err := a.threeSides(s)
	if !ok || err != nil {
		return false, err
	}
	a.texts, a.textSteps = append(a.texts, in), append(a.textSteps, s)
	a.steps = append(a.steps, s)
	return true, nil
}

// threeSides reads the versions of a regular file in the base, the directory and the workspace. ok
// is false if the bytes cannot be merged, or something else is in conflict.
func (a *applying) threeSides(s *applyStep) (in threeway.Input, ok bool, err error) {
	c, st := s.change, s.seen.st
	if c.After == nil || !c.After.IsRegular() || c.Before != nil && !c.Before.IsRegular() || !s.seen.exists || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return in, false, nil
	}
	size := st.Size + c.After.Size()
	if c.Before != nil {
		size += c.Before.Size()
		if _, ok := modeOfBoth(c, st.Mode); !ok {
			return in, false, nil
		}
	}
	if st.Size > maxMerged || c.After.Size() > maxMerged || a.mergeBytes+size > maxMerges {
		return in, false, nil
	}
	a.mergeBytes += size
	var sides [3][]byte
	for i, n := range []*tree.Inode{c.Before, nil, c.After} {
		if i == 1 {
			sides[i], err = a.host.read(c.Path)
		} else if i == 2 && s.text != nil {
			sides[i] = s.text
		} else if n != nil {
			sides[i], err = io.ReadAll(io.LimitReader(n.Content.Reader(a.o.Source.Files), n.Size()))
		}
		if k := errs.ScriptKind(err); err != nil && (k == errs.NotExist || k == errs.Damaged || errors.Is(err, unix.EACCES)) {
			return in, false, nil
		}
		if err != nil {
			return in, false, fmt.Errorf("reading %q: %w", c.Path.Short(), err)
		}
	}
	section := func(b []byte) *io.SectionReader { return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b))) }
	return threeway.Input{Base: section(sides[0]), Ours: section(sides[1]), Theirs: section(sides[2])}, true, nil
}

// modeOfBoth returns the permissions of a file that both sides changed. ok is false if both changed
// the permissions.
func modeOfBoth(c tree.Change, has uint32) (mode uint32, ok bool) {
	has &= 0o7777
	switch was, now := c.Before.Mode&0o7777, c.After.Mode&0o7777; {
	case was == now || has == now:
		return has, true
	case has == was:
		return now, true
	}
	return 0, false
}

// merge has a step write a merged text.
func (a *applying) merge(s *applyStep, text []byte) {
	n := *s.change.After
	if s.change.Before != nil {
		mode, _ := modeOfBoth(s.change, s.seen.st.Mode)
		n.Mode = n.Mode&unix.S_IFMT | mode
	}
	n.UID, n.GID, n.Mtime = s.seen.st.Uid, s.seen.st.Gid, time.Now().UnixNano()
	s.change.After = &n
	s.change.What |= tree.Data
	s.merged, s.todo = text, true
}

// mergeTexts merges the text files that both sides changed. The others are conflicts.
func (a *applying) mergeTexts() error {
	if len(a.texts) == 0 {
		return nil
	}
	err := mergeMarked(a.ctx, nil, a.texts, func(i int, conflict bool, size int64, r io.Reader) error {
		text, err := io.ReadAll(io.LimitReader(r, size))
		s := a.textSteps[i]
		switch {
		case err != nil:
			return err
		case !conflict:
			a.merge(s, text)
		case bytes.Contains(text, []byte("<<<<<<< ours\n")): // else it is binary
			s.marked = text
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range a.textSteps {
		if s.merged == nil {
			s.left = !a.conflict(s, false)
		}
	}
	return nil
}
