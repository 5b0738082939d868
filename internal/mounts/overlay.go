package mounts

import (
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Layers returns the directories of the file system mounted at an absolute path that
// overlays of this mount namespace have as layers, relative to its root. Layers that were
// mounted by relative paths, or through symbolic links outside, are not found. No request
// goes to a file system.
func Layers(mountpoint string) []string {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || !bytes.Contains(table, []byte(" - overlay ")) {
		return nil
	}
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(table), nil)
	if err != nil {
		return nil
	}
	return layers(all, mountpoint)
}

func layers(all []*mountinfo.Info, mountpoint string) (dirs []string) {
	own := covering(all, mountpoint)
	if own == nil || own.Mountpoint != mountpoint {
		return nil
	}
	for _, m := range all {
		if m.FSType != "overlay" {
			continue
		}
		for _, p := range layersOf(m.VFSOptions) {
			on := covering(all, p)
			if on != nil && path.IsAbs(p) && on.Major == own.Major && on.Minor == own.Minor {
				dirs = append(dirs, strings.TrimPrefix(path.Join(on.Root, strings.TrimPrefix(p, on.Mountpoint)), "/"))
			}
		}
	}
	return dirs
}

// covering returns the mount that a path is on, the last of those at the same place.
func covering(all []*mountinfo.Info, p string) (on *mountinfo.Info) {
	for _, m := range all {
		if (p == m.Mountpoint || m.Mountpoint == "/" || strings.HasPrefix(p, m.Mountpoint+"/")) &&
			(on == nil || len(m.Mountpoint) >= len(on.Mountpoint)) {
			on = m
		}
	}
	return on
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
