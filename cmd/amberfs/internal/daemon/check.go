package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// pingTimeout is the longest time for which Ping waits.
const pingTimeout = 5 * time.Second

// checkConfig returns an error if a mount with cfg would fail. It first unmounts dead mounts of the store, reports
// them to s, and resolves the symbolic links in the paths of cfg.
func checkConfig(cfg *Config, s MessageFunc) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}

	cfg.Store = locate.Resolve(mounts, cfg.Store)
	cfg.Mountpoint = locate.Resolve(mounts, cfg.Mountpoint)
	if cfg.From != "" {
		cfg.From = locate.Resolve(mounts, cfg.From)
	}
	if err := unmountDead(cfg, mounts, s); err != nil {
		return err
	}
	if err := CheckPaths(cfg, mounts); err != nil {
		return err
	}
	if err := checkMountpoint(cfg); err != nil {
		return err
	}

	return checkFUSE()
}

// CheckPaths checks the paths of the store and of From. The mount point need not exist.
func CheckPaths(cfg *Config, mounts []locate.Mount) error {
	if err := checkStorePath(cfg, mounts); err != nil {
		return err
	}
	return checkFrom(cfg, mounts)
}

func checkStorePath(cfg *Config, mounts []locate.Mount) error {
	if naming.IsUnder(cfg.Store, cfg.Mountpoint) && len(cfg.Exclude) == 0 {
		return errs.Fail(errs.Invalid, "the store %s lies inside the mount point %s, where the mount would hide it", cfg.Store, cfg.Mountpoint).
			WithHint("put the store beside the mount point")
	}

	if m, ok := locate.MountOf(mounts, cfg.Store); ok && m.FSType == locate.FSType {
		return errs.Fail(errs.Invalid, "the store %s is inside the amberfs mount at %s", cfg.Store, m.Mountpoint).
			WithHint("put the store on an ordinary file system")
	}

	if outer, ok := enclosingStore(filepath.Dir(cfg.Store)); ok {
		return errs.Fail(errs.Invalid, "the store %s is inside the store %s", cfg.Store, outer).WithHint("put it beside that store")
	}

	st, err := os.Stat(cfg.Store)
	if errors.Is(err, os.ErrNotExist) {
		parent := filepath.Dir(cfg.Store)
		if _, err := os.Stat(parent); err != nil {
			return errs.Fail(errs.NotExist, "there is no directory %s to make the store in", parent).
				WithHint("make it with `mkdir -p %s`", parent)
		}

		return nil
	}
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot look at the store: %w", err)
	}
	if !st.IsDir() {
		return errs.Fail(errs.Invalid, "the store %s is not a directory", cfg.Store).WithHint("name a directory, or a path where none is yet")
	}

	return nil
}

// enclosingStore returns the store that is dir or contains dir. ok is false if there is none.
func enclosingStore(dir string) (store string, ok bool) {
	for ; ; dir = filepath.Dir(dir) {
		if storedir.Check(dir) == nil {
			return dir, true
		}
		if dir == "/" || dir == "." {
			return "", false
		}
	}
}

// unmountDead unmounts dead mounts: mounts of the store or on the mount point whose daemons have ended.
func unmountDead(cfg *Config, mounts []locate.Mount, s MessageFunc) error {
	for _, m := range mounts {
		ours := m.FSType == locate.FSType && (m.Mountpoint == cfg.Mountpoint || m.Source == cfg.Store && m.Root == "/")
		if !ours || !errors.Is(Ping(m.Mountpoint), unix.ENOTCONN) {
			continue
		}

		if err := UnmountLazily(m.Mountpoint); err != nil {
			return errs.Fail(errs.Failed, "cannot unmount the dead mount at %s: %w", m.Mountpoint, err).
				WithHint("unmount it with `umount -l %s`", m.Mountpoint)
		}

		s.note("unmounted the dead mount that was left at " + m.Mountpoint)
	}
	return nil
}

// Ping returns nil if the file system at path answers statfs(2). The kernel never answers statfs(2) from a cache, but
// can do so for stat(2). For a mount without a daemon the error is ENOTCONN, and for a mount whose daemon does not
// answer within pingTimeout it is of kind Busy.
func Ping(path string) error {
	done := make(chan error, 1)
	go func() {
		var st unix.Statfs_t
		done <- unix.Statfs(path, &st)
	}()

	select {
	case err := <-done:
		return err
	case <-time.After(pingTimeout):
		return errs.Fail(errs.Busy, "%s does not answer", path)
	}
}

// UnmountLazily detaches the mount at a mount point. The mount ends when no program uses it any more.
func UnmountLazily(point string) error { return mounts.Unmount(point, true) }

// checkMountpoint checks that the mount point is a directory on which this user may mount.
func checkMountpoint(cfg *Config) error {
	err := Ping(cfg.Mountpoint)
	var st unix.Stat_t
	if err == nil {
		err = unix.Stat(cfg.Mountpoint, &st)
	}

	switch {
	case errors.Is(err, unix.ENOENT) && cfg.Shared: // startDaemon makes the mount point
		return nil
	case errors.Is(err, unix.ENOENT):
		return errs.Fail(errs.NotExist, "there is no mount point %s", cfg.Mountpoint).
			WithHint("make it with `mkdir -p %s`", cfg.Mountpoint)
	case errors.Is(err, unix.ENOTCONN):
		return errs.Fail(errs.Busy, "a dead mount of another file system lies on %s", cfg.Mountpoint).
			WithHint("unmount it with `umount -l %s`", cfg.Mountpoint)
	case err != nil:
		return errs.Fail(errs.ScriptKind(err), "cannot look at the mount point %s: %w", cfg.Mountpoint, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return errs.Fail(errs.Invalid, "the mount point %s is not a directory", cfg.Mountpoint)
	}

	// `run --from DIR` mounts the copy of DIR over DIR, so the mount point need not be empty.
	inPlace := cfg.Options.NonEmpty || cfg.From == cfg.Mountpoint
	if mounts, err := locate.Mounts(); err == nil && !inPlace {
		if m, ok := locate.MountAt(mounts, cfg.Mountpoint); ok {
			return errs.Fail(errs.Busy, "the store %s is mounted at %s already", m.Source, cfg.Mountpoint).
				WithHint("unmount it first with `amberfs umount %s`", cfg.Mountpoint)
		}
	}

	// The mount must not hide files of a store.
	if outer, ok := enclosingStore(cfg.Mountpoint); ok && cfg.Mountpoint != RunMountpoint(cfg.Store) {
		return errs.Fail(errs.Invalid, "the mount point %s is inside the store %s", cfg.Mountpoint, outer).WithHint("choose a directory outside of it")
	}

	if !inPlace {
		entries, _ := os.ReadDir(cfg.Mountpoint) // a directory that cannot be listed counts as empty
		if len(entries) > 0 {
			return errs.Fail(errs.Invalid, "the mount point %s is not empty, and the mount would hide %s", cfg.Mountpoint, entries[0].Name()).
				WithHint("choose an empty directory, or use -o nonempty")
		}
	}

	if !mounts.Privileged() && unix.Access(cfg.Mountpoint, unix.W_OK) != nil {
		return errs.Fail(errs.Failed, "you cannot mount on %s, which you cannot write to", cfg.Mountpoint).
			WithHint("choose a directory of your own")
	}

	return nil
}

// checkFrom checks that From is a readable directory that does not contain the store.
func checkFrom(cfg *Config, mounts []locate.Mount) error {
	if cfg.From == "" {
		return nil
	}

	if _, err := os.ReadDir(cfg.From); errors.Is(err, unix.ENOTDIR) {
		return errs.Fail(errs.Invalid, "%s is not a directory", cfg.From)
	} else if err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot read %s: %w", cfg.From, errors.Unwrap(err))
	}

	if outer, ok := enclosingStore(cfg.From); ok {
		return errs.Fail(errs.Invalid, "%s is inside the store %s", cfg.From, outer).WithHint("mount that store, and name the directory in the mount")
	}

	if naming.IsUnder(cfg.Store, cfg.From) && len(cfg.Exclude) == 0 {
		return errs.Fail(errs.Invalid, "the store %s is inside %s, from which it would be filled", cfg.Store, cfg.From).
			WithHint("put the store elsewhere")
	}
	if _, ok := locate.MountAt(mounts, cfg.From); ok {
		return nil // From is a workspace: its control directories, with the names below, are not copied
	}

	for _, name := range []string{naming.SnapshotsDir, naming.ForksDir} {
		if _, err := os.Lstat(filepath.Join(cfg.From, name)); err == nil {
			return errs.Fail(errs.Invalid, "%s has an entry %s of its own, a name that amberfs reserves", cfg.From, name).
				WithHint("rename it first")
		}
	}

	return nil
}

// checkFUSE checks that this user can mount a FUSE file system.
func checkFUSE() error {
	var st unix.Stat_t
	if err := unix.Stat("/dev/fuse", &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return errs.Fail(errs.Failed, "this system has no /dev/fuse").
			WithHint("load the module with `modprobe fuse` or, in a container, start it with --device /dev/fuse")
	}
	if mounts.Privileged() {
		return nil
	}

	if _, err := mounts.MountHelper(); err != nil {
		return errs.Fail(errs.Failed, "an ordinary user needs fusermount3 to mount").
			WithHint("install the package fuse3, or use `amberfs run` where users may create namespaces")
	}

	return nil
}

// busyError returns the error for a store that another process has locked. pid is the id of that process, 0 if the id is
// not known. point is the mount point that the process has written into the store, "" if it has not mounted the store.
func busyError(store string, pid int, point string) error {
	visible := false // the store is mounted in this mount namespace
	if mounts, err := locate.Mounts(); err == nil {
		if ms := locate.StoreMounts(mounts, store); len(ms) > 0 {
			point, visible = ms[len(ms)-1].Mountpoint, true
		}
	}

	owner := "another process"
	if pid != 0 {
		owner = fmt.Sprintf("pid %d", pid)
	}

	e := errs.Fail(errs.Busy, "the store %s is in use by %s", store, owner)
	switch {
	case visible:
		e.Msg += ", mounted at " + point
		return e.WithHint("unmount it first with `amberfs umount %s`", point)
	case point != "": // the store was unmounted with umount(8), or is mounted in another namespace only
		return e.WithHint("end it with `amberfs umount %s`", store)
	}

	return e
}
