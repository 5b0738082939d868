package mounts

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Layers are directories of a file system that overlays have as layers.
type Layers struct {
	Paths []string // from its root
	// Relative has, for each overlay, the paths of layers from a directory that only the
	// process which mounted it knows.
	Relative [][]string
}

// LayersIn returns the layers of the overlays of this mount namespace in the file system
// that is mounted at an absolute path. No request goes to that file system.
func LayersIn(mountpoint string) (l Layers) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || !bytes.Contains(text, []byte(" - overlay ")) {
		return l
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		return l
	}
	return layers(all, mountpoint)
}

func layers(all []*mountinfo.Info, mountpoint string) (l Layers) {
	t := make(table)
	for _, m := range all {
		t[m.Mountpoint] = m // the last of those at the same place
	}
	own := t[mountpoint]
	if own == nil {
		return l
	}
	for _, m := range all {
		if m.FSType != "overlay" {
			continue
		}
		var beside []string
		for _, p := range layersOf(m.VFSOptions) {
			if path.IsAbs(p) {
				if p, ok := t.within(own, p); ok {
					l.Paths = append(l.Paths, p)
				}
			} else if up := strings.TrimLeft(p, "./"); strings.HasPrefix(p, "../") && up != "" {
				l.Relative = append(l.Relative, []string{up})
			} else if up != "" {
				beside = append(beside, p)
			}
		}
		if len(beside) > 0 {
			l.Relative = append(l.Relative, beside)
		}
	}
	return l
}

// A table has mounts by their mount points.
type table map[string]*mountinfo.Info

// on returns the mount that an absolute path lies on; nil if there is none.
func (t table) on(p string) *mountinfo.Info {
	for ; t[p] == nil && p != "/"; p = path.Dir(p) {
	}
	return t[p]
}

// within returns the path from the root of a file system that an absolute path leads to.
// Symbolic links before it are followed on local disks only: another file system may wait
// for this process.
func (t table) within(own *mountinfo.Info, p string) (string, bool) {
	p = Resolve(p, func(at string) bool {
		on := t.on(at)
		return on != nil && slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs"}, on.FSType)
	})
	on := t.on(p)
	if on == nil || on.Major != own.Major || on.Minor != own.Minor {
		return "", false
	}
	return strings.TrimPrefix(path.Join(on.Root, strings.TrimPrefix(p, on.Mountpoint)), "/"), true
}

// Resolve makes an absolute path clean, and follows the symbolic links before the first
// path that may not be read.
func Resolve(p string, mayRead func(at string) bool) string {
	const maxLinks = 40 // as the kernel
	rest, at := strings.Split(path.Clean(p), "/"), "/"
	for links := 0; len(rest) > 0 && links < maxLinks; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		if !mayRead(next) {
			return path.Join(next, path.Join(rest...))
		}
		target, err := os.Readlink(next)
		if err != nil { // it is no link, or does not exist yet
			at = next
			continue
		}
		links++
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return path.Join(at, path.Join(rest...))
}

// layersOf returns the clean paths in the options of an overlay as the kernel shows them:
// some bytes as octal numbers, and in lowerdir colons and backslashes behind a backslash.
func layersOf(options string) (paths []string) {
	hide, show := strings.NewReplacer(`\\`, "\x00", `\:`, "\x01"), strings.NewReplacer("\x00", `\`, "\x01", ":")
	for option := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(option, "=")
		value, err := strconv.Unquote(`"` + strings.ReplaceAll(value, `"`, `\"`) + `"`)
		if err != nil {
			continue
		}
		switch name {
		case "upperdir", "workdir", "lowerdir+", "datadir+":
			paths = append(paths, path.Clean(value))
		case "lowerdir":
			for p := range strings.SplitSeq(hide.Replace(value), ":") {
				paths = append(paths, path.Clean(show.Replace(p))) // "::" begins the data layers
			}
		}
	}
	return paths
}
