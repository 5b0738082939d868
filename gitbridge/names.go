package gitbridge

import (
	"regexp"
	"strings"
)

// nameRules are the rules by which git accepts paths in an index: verify_path of
// read-cache.c. By default it refuses, on every platform, names that a case-insensitive or
// Windows file system could take for ".git".
type nameRules struct {
	ntfs bool // core.protectNTFS
	hfs  bool // core.protectHFS
}

// A refused is the names that git refuses for every file, and those for symbolic links only.
type refusedNames struct{ file, link *regexp.Regexp }

var (
	asTheyAre = refusedNames{regexp.MustCompile(`^(?i:\.git)$`), regexp.MustCompile(`^(?i:\.gitmodule)[sS]$`)}

	// Windows also opens them by short names ("git~1"), with dots and spaces behind, or an
	// alternate stream after a colon. A backslash separates components there; git passes
	// over one in front.
	onWindows = refusedNames{
		regexp.MustCompile(`(?s)^(?:.+\\)?(?i:\.git|git~1)[. ]*(?:[\\:].*)?$`),
		regexp.MustCompile(`(?s)^(?:.+\\)?(?:(?i:\.gitmodule)[sS]|(?i:gitmod)~[1-4]|(?i:gi7eba)~[1-9]|(?i:gi7eb)~[1-9]\d|(?i:gi7e)~[1-9]\d{2}|` +
			`(?i:gi7)~[1-9]\d{3}|(?i:gi)~[1-9]\d{4}|(?i:g)~[1-9]\d{5}|~[1-9]\d{6})[. ]*(?::.*)?$`),
	}
)

func (r refusedNames) match(name string, symlink bool) bool {
	return r.file.MatchString(name) || symlink && r.link.MatchString(name)
}

// refuses reports whether git add would refuse path because of its last
// component; those before it have been checked already.
func (r nameRules) refuses(name string, symlink bool) bool {
	return strings.ContainsAny(name, "gG~") && // to be quick with all others
		(asTheyAre.match(name, symlink) || r.ntfs && onWindows.match(name, symlink) || r.hfs && asTheyAre.match(onHFS(name), symlink))
}

// onHFS returns a name as HFS+ compares it: without invisible characters. As in git, the first byte
// that is not UTF-8 ends it.
func onHFS(name string) string {
	name, _, _ = strings.Cut(strings.ToValidUTF8(name, "\x00"), "\x00")
	return strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return r
	}, name)
}
