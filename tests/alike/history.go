// Package alike holds a rule: what a program does in a run, followed by apply, is what it does
// in the plain directory.
//
// Imported by: tests.
//
// A history is a sequence of system calls that a seed draws. It is done in a plain directory,
// and in a run of an equal one, which is then applied. The two directories are the same: names,
// which of them share a file, types, modes, owners, extended attributes, contents, holes, and
// the times that a call has set.
package alike

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A world is where histories happen: who does them, and what else there is.
type world struct {
	UID, GID, Second int // the user, and a group that is not the user's first
	Root             bool
	// Writable: the user may write what is root's. No file gets another name then: one that loses
	// its first name and is written is the user's own when it is applied.
	Writable bool
}

// shown is a group that a program may name in a run: an ordinary user's namespace has only one.
func (w world) shown() int {
	if w.Root {
		return w.Second
	}
	return w.GID
}

// start fills a directory, as root. What it makes is the user's, and some of it is root's.
func start(dir string, seed uint64, w world) error {
	r := rand.New(rand.NewPCG(seed, 0))
	own := func(p string) error {
		uid, gid := w.UID, w.GID
		k := r.IntN(8)
		if k == 0 && p[0] == 's' { // where a list may keep others from reading
			k = 1
		}
		switch k {
		case 0:
			uid, gid = 0, []int{0, w.Second}[r.IntN(2)]
			if err := os.Chmod(filepath.Join(dir, p), map[bool]os.FileMode{false: []os.FileMode{0o644, 0o600}[r.IntN(2)], true: 0o666}[w.Writable]); err != nil {
				return err
			}
		case 1, 2:
			gid = w.Second
		}
		return os.Lchown(filepath.Join(dir, p), uid, gid)
	}
	for _, p := range []string{".", "d", "d/e", "s"} {
		mode := os.FileMode(0o755)
		if p == "s" {
			mode = 0o2775
		}
		err := errors.Join(os.MkdirAll(filepath.Join(dir, p), 0o755), os.Chmod(filepath.Join(dir, p), mode))
		if p == "s" {
			err = errors.Join(err, os.Lchown(filepath.Join(dir, p), w.UID, w.Second), os.Chmod(filepath.Join(dir, p), os.ModeSetgid|0o775))
		} else {
			err = errors.Join(err, os.Lchown(filepath.Join(dir, p), w.UID, w.GID))
		}
		if err != nil {
			return err
		}
	}
	if r.IntN(3) == 0 {
		if err := unix.Setxattr(filepath.Join(dir, "s"), "system.posix_acl_default", acl(r, w), 0); err != nil {
			return err
		}
	}
	for _, p := range []string{"a", "b", "d/a", "d/e/b", "s/c", "d/c"} {
		if r.IntN(4) == 0 {
			continue
		}
		at := filepath.Join(dir, p)
		data := make([]byte, r.IntN(3)*3000+r.IntN(20))
		for i := range data {
			data[i] = byte(i + int(p[0]))
		}
		err := os.WriteFile(at, data, 0o600)
		if err == nil && r.IntN(4) == 0 {
			err = os.Truncate(at, int64(r.IntN(5)*100_000))
		}
		if err == nil {
			err = os.Chmod(at, os.FileMode(0o600|r.Uint32N(2)*0o060|r.Uint32N(2)*0o006))
		}
		if err == nil {
			err = own(p)
		}
		if err == nil && r.IntN(4) == 0 {
			err = unix.Setxattr(at, "user.begin", []byte(p), 0)
		}
		if err == nil && r.IntN(3) == 0 {
			err = os.Link(at, filepath.Join(dir, []string{"h", "d/h", "s/h"}[r.IntN(3)]))
		}
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Sec: 1_700_000_000}, {Sec: 1_700_000_000 + int64(r.IntN(9)), Nsec: 5}}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// acl is an access control list with a user and a group.
func acl(r *rand.Rand, w world) []byte {
	const user, named, group, namedGroup, mask, other, nobody = 1, 2, 4, 8, 16, 32, 0xffffffff
	b := binary.LittleEndian.AppendUint32(nil, 2)
	entry := func(tag, perm uint16, id uint32) {
		b = binary.LittleEndian.AppendUint16(b, tag)
		b = binary.LittleEndian.AppendUint16(b, perm)
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	perm := 6 | uint16(r.IntN(2))
	if !w.Root {
		perm = 7
	}
	entry(user, perm, nobody)
	if r.IntN(2) == 0 {
		entry(named, uint16(r.IntN(8)), uint32(w.UID))
	}
	entry(group, uint16(r.IntN(8)), nobody)
	entry(namedGroup, uint16(r.IntN(8)), uint32(w.shown()))
	entry(mask, uint16(r.IntN(8)), nobody)
	entry(other, uint16(r.IntN(8)), nobody)
	return b
}

// A step is one system call, or a few that belong together.
type step struct {
	text string
	do   func() error
}

// history draws system calls in a directory. Many of them fail, and do so in both places.
func history(dir string, seed uint64, n int, w world) (steps []step) {
	r := rand.New(rand.NewPCG(seed, 1))
	names := []string{"a", "b", "c", "h", "d", "s"}
	path := func() string {
		p := names[r.IntN(len(names))]
		switch r.IntN(5) {
		case 0, 1:
			p = "d/" + p
		case 2:
			p = "s/" + p
		case 3:
			p = "d/e/" + p
		}
		return p
	}
	for range n {
		p, q := path(), path()
		at, to := filepath.Join(dir, p), filepath.Join(dir, q)
		off, size, fill := int64(r.IntN(4))*50_000+int64(r.IntN(5000)), int64(r.IntN(9000)), byte(r.IntN(250)+1)
		mode := []uint32{0o644, 0o600, 0o664, 0o755, 0o640, 0o2755, 0o4755, 0o444, 0o300, 0, 0o200}[r.IntN(11)]
		list, set := acl(r, w), when(r)
		value := binary.LittleEndian.AppendUint32(nil, r.Uint32())
		add := func(text string, do func() error) { steps = append(steps, step{text, do}) }
		data := make([]byte, size)
		for i := range data {
			data[i] = fill
		}
		switch k := r.IntN(30); {
		case k < 3:
			add("create "+p, func() error { return write(at, unix.O_CREAT|unix.O_EXCL, mode&0o777, 0, data) })
		case k < 5:
			add(fmt.Sprint("write ", p, " at ", off), func() error { return write(at, 0, 0, off, data) })
		case k < 6 && fill%2 == 0:
			add("rewrite "+p, func() error {
				if err := write(at, unix.O_TRUNC, 0, 0, data); err != nil {
					return err
				}
				return unix.Truncate(at, size*2/3)
			})
		case k < 6:
			// In a hole, ext4 makes a block of zeros of the end of a file, so that is a whole block.
			add(fmt.Sprint("truncate ", p, " at ", off&^4095), func() error { return unix.Truncate(at, off&^4095) })
		case k < 7:
			add("punch "+p, func() error { return punch(at, off&^4095, size&^4095) })
		case k < 8: // as editors save
			add("replace "+p, func() error {
				if err := write(at+"~", unix.O_CREAT|unix.O_EXCL, mode&0o777, 0, data); err != nil {
					return err
				}
				return unix.Rename(at+"~", at)
			})
		case k < 10:
			add("unlink "+p, func() error { return unix.Unlink(at) })
		case k < 12:
			add("mkdir "+p, func() error { return unix.Mkdir(at, 0o775) })
		case k < 13:
			add("rmdir "+p, func() error { return unix.Rmdir(at) })
		case w.Writable && k < 20:
			continue
		case k < 16:
			add("rename "+p+" "+q, func() error { return unix.Rename(at, to) })
		case k < 17:
			add("exchange "+p+" "+q, func() error {
				return unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
			})
		case k < 20:
			add("link "+p+" "+q, func() error { return unix.Link(at, to) })
		case k < 21:
			add("symlink "+p, func() error { return unix.Symlink(q, at) })
		case k < 22:
			add("mkfifo "+p, func() error { return unix.Mkfifo(at, mode&0o777) })
		case k < 23:
			add(fmt.Sprintf("chmod %s %o", p, mode), func() error { return unix.Fchmodat(unix.AT_FDCWD, at, mode, 0) })
		case k < 24:
			add("chgrp "+p, func() error { return unix.Lchown(at, -1, []int{w.GID, w.shown()}[fill%2]) })
		case k < 25:
			if !w.Root {
				continue
			}
			add("chown "+p, func() error { return unix.Lchown(at, []int{0, 1001, 1002}[fill%3], -1) })
		case k < 26:
			add("setxattr "+p, func() error { return unix.Lsetxattr(at, "user.k", value[:fill%5], 0) })
		case k < 27:
			add("removexattr "+p, func() error {
				return unix.Lremovexattr(at, []string{"user.begin", "user.k", "system.posix_acl_access"}[fill%3])
			})
		case k < 28:
			add("acl "+p, func() error {
				return unix.Lsetxattr(at, []string{"system.posix_acl_access", "system.posix_acl_default"}[fill%2], list, 0)
			})
		case k < 29:
			if !w.Root {
				continue
			}
			add("capability "+p, func() error {
				return unix.Lsetxattr(at, "security.capability", append([]byte{1, 0, 0, 2, 0, fill, 0, 0}, make([]byte, 12)...), 0)
			})
		default:
			add("utimes "+p, func() error {
				return unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{set, set}, unix.AT_SYMLINK_NOFOLLOW)
			})
		}
	}
	return steps
}

// topHistory changes the working directory itself.
func topHistory(seed uint64, w world) []step {
	r := rand.New(rand.NewPCG(seed, 2))
	mode, list := []uint32{0o700, 0o755, 0o2775, 0o1777}[r.IntN(4)], acl(r, w)
	value := binary.LittleEndian.AppendUint32(nil, r.Uint32())
	return []step{
		{fmt.Sprintf("chmod %o", mode), func() error { return unix.Chmod(".", mode) }},
		{"chgrp", func() error { return unix.Chown(".", -1, w.shown()) }},
		{"setxattr", func() error { return unix.Setxattr(".", "user.k", value, 0) }},
		{"acl", func() error { return unix.Setxattr(".", "system.posix_acl_default", list, 0) }},
	}
}

// when is a time that a program may set.
func when(r *rand.Rand) unix.Timespec {
	years := []int64{-40, -1, 10, 40, 293, 400} // since 1970; ext4 has times up to 2446
	return unix.Timespec{Sec: years[r.IntN(len(years))]*31_557_600 + int64(r.IntN(1000)), Nsec: int64(r.IntN(1_000_000_000))}
}

func write(p string, how int, mode uint32, off int64, data []byte) error {
	fd, err := unix.Open(p, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|how, mode)
	if err != nil {
		return err
	}
	_, err = unix.Pwrite(fd, data, off)
	return errors.Join(err, unix.Close(fd))
}

func punch(p string, off, n int64) error {
	fd, err := unix.Open(p, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	err = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	return errors.Join(err, unix.Close(fd))
}
