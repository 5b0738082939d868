package locate

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// FSType is the type that amberfs mounts carry in the mount table.
const FSType = "fuse.amberfs"

// Mount is one row of the mount table (proc(5), /proc/PID/mountinfo).
type Mount struct {
	Device string // major:minor, equal for all mounts of one file system
	Root   string // the path inside the file system that is mounted
	Point  string // where, in this process's namespace
	FSType string
	Source string // for amberfs: the store's directory
	// ReadOnly is of the whole file system, wherever it is mounted.
	ReadOnly bool
}

// Mounts reads this process's mount table, in the order in which mounts were
// made.
func Mounts() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads a mount table.
func Parse(r io.Reader) ([]Mount, error) {
	var out []Mount
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), 1<<20)
	for sc.Scan() {
		// 36 35 98:0 /root /point rw,noatime master:1 … - type source options
		f := strings.Split(sc.Text(), " ")
		sep := 6
		for sep < len(f) && f[sep] != "-" {
			sep++
		}
		if sep+2 >= len(f) {
			return nil, fmt.Errorf("reading the mount table: strange line %q", sc.Text())
		}
		out = append(out, Mount{
			Device:   f[2],
			Root:     unescape(f[3]),
			Point:    unescape(f[4]),
			FSType:   f[sep+1],
			Source:   unescape(f[sep+2]),
			ReadOnly: sep+3 < len(f) && (f[sep+3] == "ro" || strings.HasPrefix(f[sep+3], "ro,")),
		})
	}
	return out, sc.Err()
}

// unescape undoes the kernel's octal escapes (space, tab, newline, backslash,
// and # in sources).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			var v int
			ok := true
			for _, c := range s[i+1 : i+4] {
				ok = ok && c >= '0' && c <= '7'
				v = v<<3 | int(c-'0')
			}
			if ok {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// At gives the mount that path (absolute and clean) lies on: the deepest mount
// point above it and, of several on one point, the last made.
func At(mounts []Mount, path string) (Mount, bool) {
	best, found := Mount{}, false
	for _, m := range mounts {
		if under(path, m.Point) && (!found || len(m.Point) >= len(best.Point)) {
			best, found = m, true
		}
	}
	return best, found
}

// On gives the amberfs mount whose mount point is exactly path.
func On(mounts []Mount, path string) (Mount, bool) {
	m, ok := At(mounts, path)
	return m, ok && m.FSType == FSType && m.Point == path
}

// OfStore gives the amberfs mounts of a store's whole file system, in the order
// in which they were made.
func OfStore(mounts []Mount, store string) []Mount {
	var out []Mount
	for _, m := range mounts {
		if m.FSType == FSType && m.Source == store && m.Root == "/" {
			out = append(out, m)
		}
	}
	return out
}

// under says whether path is dir or lies below it; both absolute and clean.
func under(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
