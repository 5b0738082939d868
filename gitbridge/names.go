package gitbridge

import (
	"strings"
	"unicode/utf8"
)

// nameRules says which paths git takes into an index: verify_path of
// read-cache.c. Whatever a case-insensitive or Windows file system could take
// for ".git" is refused on every platform, by default.
type nameRules struct {
	ntfs bool // core.protectNTFS
	hfs  bool // core.protectHFS
}

// refuses reports whether git add would refuse path because of its last
// component; those before it have been checked already.
func (r nameRules) refuses(name string, symlink bool) bool {
	if r.hfs && (hfsEqual(name, ".git") || symlink && hfsEqual(name, ".gitmodules")) {
		return true
	}
	if strings.EqualFold(name, ".git") || symlink && strings.EqualFold(name, ".gitmodules") {
		return true
	}
	if !r.ntfs {
		return false
	}
	if ntfsDotGit(name) || symlink && ntfsDotGitmodules(name) {
		return true
	}
	// A backslash separates components on Windows. Git passes over one in front.
	for i := 1; i < len(name); i++ {
		if rest := name[i:]; rest[0] == '\\' && (ntfsDotGit(rest[1:]) || symlink && ntfsDotGitmodules(rest[1:])) {
			return true
		}
	}
	return false
}

// ntfsDotGit reports whether Windows could open name as ".git": any case, the
// short name "git~1", trailing dots and spaces, an alternate stream after a
// colon, and whatever follows a backslash.
func ntfsDotGit(name string) bool {
	rest, ok := cutPrefixFold(name, ".git")
	if !ok {
		if rest, ok = cutPrefixFold(name, "git~1"); !ok {
			return false
		}
	}
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\', '/', ':':
			return true
		case '.', ' ':
		default:
			return false
		}
	}
	return true
}

// ntfsDotGitmodules does so for ".gitmodules", whose short names are
// "gitmod~1" to "gitmod~4" and "gi7eba~1" and the like.
func ntfsDotGitmodules(name string) bool {
	if rest, ok := cutPrefixFold(name, ".gitmodules"); ok {
		return onlySpacesAndDots(rest)
	}
	if rest, ok := cutPrefixFold(name, "gitmod~"); ok && rest != "" && '1' <= rest[0] && rest[0] <= '4' {
		return onlySpacesAndDots(rest[1:])
	}
	const short = "gi7eba"
	tilde := false
	i := 0
	for ; i < 8; i++ {
		switch {
		case i >= len(name):
			return false
		case tilde:
			if name[i] < '0' || name[i] > '9' {
				return false
			}
		case name[i] == '~':
			if i++; i >= len(name) || name[i] < '1' || name[i] > '9' {
				return false
			}
			tilde = true
		case i >= len(short), lower(name[i]) != short[i]:
			return false
		}
	}
	return onlySpacesAndDots(name[min(i, len(name)):])
}

func onlySpacesAndDots(s string) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ':':
			return true
		case '.', ' ':
		default:
			return false
		}
	}
	return true
}

// hfsEqual reports whether HFS+, which ignores case and some invisible
// characters, could take name for want.
func hfsEqual(name, want string) bool {
	next := func() rune {
		for name != "" {
			r, n := utf8.DecodeRuneInString(name)
			if r == utf8.RuneError && n == 1 {
				return 0 // like the end, as git has it
			}
			name = name[n:]
			switch {
			case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			default:
				return r
			}
		}
		return 0
	}
	for i := 0; i < len(want); i++ {
		if r := next(); r > 127 || lower(byte(r)) != want[i] {
			return false
		}
	}
	return next() == 0
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// cutPrefixFold is strings.CutPrefix for ASCII in any case.
func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) {
		return s, false
	}
	for i := 0; i < len(prefix); i++ {
		if lower(s[i]) != prefix[i] {
			return s, false
		}
	}
	return s[len(prefix):], true
}
