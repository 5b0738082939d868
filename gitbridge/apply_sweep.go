package gitbridge

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// tempName is a name that nothing has, for what this apply makes.
func (a *applying) tempName() string { return a.host.temps + strings.ToLower(rand.Text()) }

// replacedName is a temporary name for a file that another one replaces. It has the keys of the staged
// file and of the one that was seen at the place, so that sweep can tell whether a file is one of the
// two.
func (a *applying) replacedName(ours, seen string) string {
	return a.host.temps + ours + "." + seen + "." + strings.ToLower(rand.Text())
}

// key identifies a file in its present version.
func (p place) key() string {
	if !p.exists || p.isDir() {
		return fmt.Sprintf("%x", p.st.Ino)
	}
	return fmt.Sprintf("%x_%x_%x", p.st.Ino, p.st.Size, p.st.Mtim.Nano())
}

// sweep removes from a directory what a killed apply left there. Only with the lock it is certain
// that no other apply is under way.
func (a *applying) sweep(p *tree.Path) error {
	key := p.String()
	if a.swept[key] {
		return nil
	}
	a.swept[key] = true
	dir, err := a.host.open(p)
	if err != nil {
		return err
	}
	if at, err := statAt(dir, "."); err == nil {
		a.times = append(a.times, dirTime{p, at.st.Mtim})
	}
	if !a.locked {
		return nil
	}
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		return nil // it can be written, but not listed
	}
	if err != nil {
		return fmt.Errorf("listing %q: %w", p.Short(), err)
	}
	f := os.NewFile(uintptr(fd), p.Short())
	defer f.Close()
	for {
		names, err := f.Readdirnames(1000)
		for _, name := range names {
			if rest, ok := strings.CutPrefix(name, a.host.temps); ok {
				if err := a.sweepOne(p, fd, name, rest); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing %q: %w", p.Short(), reason(err))
		}
	}
}

// sweepOne removes what an apply staged or replaced. Anything else is another program's file, whose
// name an apply took before it was killed. It is kept.
func (a *applying) sweepOne(p *tree.Path, dir int, name, rest string) error {
	at, err := statAt(dir, name)
	if err != nil {
		return err
	}
	if !strings.Contains(rest, ".") || strings.HasPrefix(rest, at.key()+".") {
		return removeBelow(dir, name)
	}
	if strings.Contains(rest, "."+at.key()+".") {
		if err := unlink(dir, name, at); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	kept, err := setAside(dir, name)
	a.skip(p.Entry(kept), "an apply that was interrupted took it from its place: it is another program's")
	return err
}

// sweepAbove cleans up around a path at which nothing is left to do: a killed apply may have renamed
// its file, but neither removed what it replaced nor closed the directory.
func (a *applying) sweepAbove(s *applyStep) error {
	if s.seen.open {
		if err := a.openDir(s); err != nil {
			return err
		}
	}
	if s.todo || s.seen.unreachable != nil || s.change.Path == nil {
		return nil
	}
	dir, err := a.host.dirOf(s.change.Path)
	if err == nil {
		_, err = a.openUp(dir, s.change.Path.Dir)
	}
	if err != nil {
		return err
	}
	return a.sweep(s.change.Path.Dir)
}

// setAside renames a file so that no apply removes it.
func setAside(dir int, temp string) (string, error) {
	kept := ".amberfs-kept-" + strings.ToLower(rand.Text())
	if err := unix.Renameat(dir, temp, dir, kept); err != nil {
		return temp, err
	}
	return kept, nil
}
