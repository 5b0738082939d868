package hostdir

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// reportOtherUsers adds notes about other uses of the paths that are to change: mounts, programs that have a file open
// or locked, and hard links outside of the directory. It fails for mount points, which cannot be replaced or removed.
func (pl *planner) reportOtherUsers() error {
	mounts, err := pl.mountPoints()
	if err != nil {
		return err
	}

	var mounted []string
	files := make(map[fileID]string)

	for _, d := range pl.steps {
		s := d.step
		if s.action <= changeAttributes || !s.original.exists {
			continue
		}

		p := s.change.Path
		if mounts[p.String()] {
			mounted = append(mounted, p.Short())
			pl.addNote(p.Short(), "a mount point, which apply cannot replace")
		}

		if s.original.st.Mode&unix.S_IFMT == unix.S_IFREG {
			files[s.original.id()] = p.String()
		}
		if s.isLinkedOutside() {
			pl.addNote(p.Short(), "it has another name outside of the directory, which keeps the old contents")
		}
	}

	for id, text := range describeUsers(files) {
		p, err := tree.ParsePath(files[id])
		if err == nil {
			pl.addNote(p.Short(), text)
		}
	}

	if err := pl.reportUnlikeCopies(); err != nil {
		return err
	}

	slices.SortStableFunc(pl.res.Notes, func(x, y stream.Omission) int { return cmp.Compare(x.Path, y.Path) })
	if len(mounted) == 0 || pl.o.DryRun {
		return nil
	}

	return errs.Fail(errs.Busy, "%s in %s: a mount point cannot be replaced; nothing was changed", gitquote.ListNames(mounted), pl.res.Dir).
		WithHint("unmount it, or leave it out by %s", ignoreName)
}

// addNote adds a note about a path to ApplyResult.Notes.
func (pl *planner) addNote(p, text string) {
	pl.res.Notes = append(pl.res.Notes, stream.Omission{Path: p, Reason: text})
}

// mountPoints returns the mount points in the directory, relative to it.
func (pl *planner) mountPoints() (map[string]bool, error) {
	all, err := mountinfo.GetMounts(mountinfo.PrefixFilter(pl.host.path))
	if err != nil {
		return nil, fmt.Errorf("looking for mount points in %s: %w", pl.res.Dir, err)
	}

	points := make(map[string]bool)
	for _, m := range all {
		if rel, err := filepath.Rel(pl.host.path, m.Mountpoint); err == nil && rel != "." {
			points[rel] = true
		}
	}

	return points, nil
}

// isLinkedOutside reports whether a file with new contents has a hard link
// outside of the directory, which keeps the old contents.
func (s *step) isLinkedOutside() bool {
	c := s.change
	return c.Before != nil && c.After != nil && c.Before.Ino == c.After.Ino && c.After.IsRegular() && c.Differences&tree.DataDiffers != 0 &&
		s.original.st.Mode&unix.S_IFMT == unix.S_IFREG && int(s.original.st.Nlink) > max(1, len(c.Before.Links))
}

const lockedBy, unknownProgram = "locked by ", "another program"

// describeUsers describes the programs that have files open or locked. Programs of other users are visible to
// root only.
func describeUsers(files map[fileID]string) map[fileID]string {
	out := make(map[fileID]string)
	if len(files) == 0 {
		return out
	}

	findLocks(files, func(id fileID, pid int) { out[id] = lockedBy + programName(pid) })

	names := make(map[string]bool)
	for _, p := range files {
		names[filepath.Base(p)] = true
	}

	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // without /proc, no program is found
	for _, link := range links {
		// First compare the name in the link: reading the link is cheaper than stat, and cannot block.
		var st unix.Stat_t
		if target, err := os.Readlink(link); err != nil || !names[filepath.Base(target)] || unix.Stat(link, &st) != nil {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil || pid == os.Getpid() {
			continue
		}

		id := fileID{st.Dev, st.Ino}
		switch {
		case files[id] == "":
		case out[id] == "":
			out[id] = "open in " + programName(pid)
		case out[id] == lockedBy+unknownProgram:
			out[id] = lockedBy + programName(pid)
		}
	}

	return out
}

// programName returns the name of a process with its process id.
func programName(pid int) string {
	name := process.ProgramName(pid)
	if name == "" {
		return unknownProgram
	}
	return fmt.Sprintf("%s (%d)", name, pid)
}

// findLocks calls fn for each lock or lease that the kernel lists for one of the files, with the file and a process id.
func findLocks(files map[fileID]string, fn func(fileID, int)) {
	locks, _ := os.ReadFile("/proc/locks") // without it, no lock is found
	byIno := make(map[uint64][]fileID)
	for id := range files {
		byIno[id.ino] = append(byIno[id.ino], id)
	}

	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line)
		const waiterMark, pidField, fileField = "->", 4, 5
		fields = slices.DeleteFunc(fields, func(s string) bool { return s == waiterMark })
		if len(fields) <= fileField {
			continue
		}

		var major, minor uint32
		var ino uint64
		if n, _ := fmt.Sscanf(fields[fileField], "%x:%x:%d", &major, &minor, &ino); n != 3 {
			continue
		}

		pid, _ := strconv.Atoi(fields[pidField]) // -1 if the lock belongs to an open file and not to a process
		for _, id := range byIno[ino] {
			// On Btrfs and overlayfs, the device numbers in /proc/locks and in the file's status differ, and
			// both have the major number 0. So a file counts as locked if both major numbers are 0.
			if id.dev == unix.Mkdev(major, minor) || major == 0 && unix.Major(id.dev) == 0 {
				fn(id, pid)
			}
		}
	}
}
