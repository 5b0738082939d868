package gitbridge

import (
	"regexp"
	"strings"

	"github.com/amberfs/amberfs/internal/pattern"
)

// nameRules are the rules by which git accepts paths in an index: verify_path in
// read-cache.c. By default git refuses, on every platform, names that Windows or a
// case-insensitive file system could resolve to ".git".
type nameRules struct {
	ntfs bool // core.protectNTFS
	hfs  bool // core.protectHFS
}

// refusedNames has patterns of the names that git refuses. file returns the pattern for files of every type,
// and link the pattern for symbolic links only.
type refusedNames struct{ file, link func() *regexp.Regexp }

var (
	plainNames = refusedNames{pattern.New(`^(?i:\.git)$`), pattern.New(`^(?i:\.gitmodule)[sS]$`)}

	// Windows also opens these files by short names ("git~1"), and by names with trailing dots and
	// spaces or with an alternate stream after a colon. A backslash separates path components there,
	// so only the part after the last backslash counts.
	windowsNames = refusedNames{
		pattern.New(`(?s)^(?:.+\\)?(?i:\.git|git~1)[. ]*(?:[\\:].*)?$`),
		pattern.New(`(?s)^(?:.+\\)?(?:(?i:\.gitmodule)[sS]|(?i:gitmod)~[1-4]|(?i:gi7eba)~[1-9]|(?i:gi7eb)~[1-9]\d|(?i:gi7e)~[1-9]\d{2}|` +
			`(?i:gi7)~[1-9]\d{3}|(?i:gi)~[1-9]\d{4}|(?i:g)~[1-9]\d{5}|~[1-9]\d{6})[. ]*(?::.*)?$`),
	}
)

func (r refusedNames) match(name string, symlink bool) bool {
	return r.file().MatchString(name) || symlink && r.link().MatchString(name)
}

// refuses reports whether git add would refuse a file because of its name, the last component of its
// path.
func (r nameRules) refuses(name string, symlink bool) bool {
	return strings.ContainsAny(name, "gG~") && // excludes most names quickly
		(plainNames.match(name, symlink) || r.ntfs && windowsNames.match(name, symlink) || r.hfs && plainNames.match(hfsName(name), symlink))
}

// hfsName returns a name as HFS+ compares it: without invisible characters. As in git, the name ends at
// the first byte that is not UTF-8.
func hfsName(name string) string {
	name, _, _ = strings.Cut(strings.ToValidUTF8(name, "\x00"), "\x00")
	return strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, name)
}
