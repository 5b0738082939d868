// Package hide matches the paths that are hidden in a workspace. Its patterns are the patterns of
// .gitignore.
package hide

import (
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// A Matcher matches paths with patterns, of which the last one that matches decides. A nil Matcher
// matches no path.
type Matcher struct {
	patterns []pattern
}

type pattern struct {
	segments []string // patterns for path.Match, or "**", which matches any number of names
	negated  bool     // a path that matches is not hidden
	dirOnly  bool     // only directories match
}

// anyNames is the segment of a pattern that matches any number of names.
const anyNames = "**"

// New returns the Matcher of the lines of a file such as .gitignore, nil if no line has a pattern. A
// malformed pattern is an error.
func New(lines []string) (*Matcher, error) {
	m := &Matcher{}

	for _, line := range lines {
		line = trimSpaces(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}

		p, err := parsePattern(line)
		if err != nil {
			return nil, err
		}
		m.patterns = append(m.patterns, p)
	}

	if len(m.patterns) == 0 {
		return nil, nil
	}
	return m, nil
}

// trimSpaces removes the spaces at the end of a line, but not a space after a backslash.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

func parsePattern(line string) (p pattern, err error) {
	text := line
	text, p.negated = strings.CutPrefix(text, "!")
	text, p.dirOnly = strings.CutSuffix(text, "/")
	anchored := strings.Contains(text, "/")
	text = strings.TrimPrefix(text, "/")

	p.segments = strings.Split(text, "/")
	if !anchored {
		p.segments = append([]string{anyNames}, p.segments...)
	}
	if p.segments[len(p.segments)-1] == anyNames {
		p.segments = append(p.segments, "*") // "dir/**" matches everything in dir
	}

	for i, segment := range p.segments {
		if segment == anyNames {
			continue
		}
		if segment == "" || segment == "." || segment == ".." || strings.Contains(segment, "[:") || strings.Contains(segment, "\x00") {
			return p, invalidPattern(line)
		}

		p.segments[i] = withCaret(segment)
		if _, err := path.Match(p.segments[i], "x"); err != nil {
			return p, invalidPattern(line)
		}
	}

	return p, nil
}

func invalidPattern(line string) error {
	return errs.New(errs.Invalid, "%q is no pattern of paths below the root, as .gitignore has them", line)
}

// withCaret replaces the "!" that negates a class of characters by "^", as path.Match expects.
func withCaret(segment string) string {
	b := []byte(segment)
	for i := 0; i+1 < len(b); i++ {
		if b[i] == '\\' {
			i++
		} else if b[i] == '[' && b[i+1] == '!' {
			b[i+1] = '^'
		}
	}
	return string(b)
}

// Match reports whether a path is hidden. The path is relative to the root. The caller has checked that no
// directory above it is hidden.
func (m *Matcher) Match(name string, isDir bool) bool {
	if m == nil {
		return false
	}
	names := strings.Split(name, "/")

	for _, p := range slices.Backward(m.patterns) {
		if (isDir || !p.dirOnly) && matchNames(p.segments, names) {
			return !p.negated
		}
	}

	return false
}

// Hides reports whether a path, or a directory above it, is hidden.
func (m *Matcher) Hides(name string, isDir bool) bool {
	if m == nil {
		return false
	}
	top, _ := m.TopHidden(name)
	return top != name || m.Match(name, isDir)
}

// TopHidden returns the highest hidden directory above a path, or the path itself if it is hidden. Otherwise it
// reports false.
func (m *Matcher) TopHidden(name string) (string, bool) {
	if m == nil {
		return "", false
	}
	for i := range name {
		if name[i] == '/' && m.Match(name[:i], true) {
			return name[:i], true
		}
	}
	return name, m.Match(name, true)
}

// matchNames reports whether segments match all names. It makes at most len(segments)*len(names) comparisons: after a
// mismatch, it tries one more name for the last anyNames only.
func matchNames(segments, names []string) bool {
	lastAny, resume := -1, 0 // the last anyNames, and the first name after those that it matches
	for s, n := 0, 0; s < len(segments) || n < len(names); {
		switch {
		case s < len(segments) && segments[s] == anyNames:
			lastAny, resume = s, n
			s++
			continue
		case s < len(segments) && n < len(names) && matchName(segments[s], names[n]):
			s++
			n++
			continue
		case lastAny < 0 || resume >= len(names):
			return false
		}

		resume++
		s, n = lastAny+1, resume
	}

	return true
}

func matchName(segment, name string) bool {
	ok, _ := path.Match(segment, name)
	return ok
}

// ToRoot converts a line of a .gitignore, or of a similar file. The line is from a file in the directory dir, and the
// result has the same meaning in a file in the root directory.
func ToRoot(dir, line string) string {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if dir == "" || dir == "." || line == "" || line[0] == '#' {
		return line
	}

	text, negated := strings.CutPrefix(line, "!")
	separator := "/**/"
	if strings.Contains(strings.TrimSuffix(text, "/"), "/") {
		text, separator = strings.TrimPrefix(text, "/"), "/"
	}
	text = Literal(dir) + separator + text
	if negated {
		return "!" + text
	}

	return text
}

// escapedChars are the characters that a pattern has to escape.
const escapedChars = `*?[\!# `

// Literal returns the pattern that matches one path only.
func Literal(name string) string {
	var b strings.Builder
	b.WriteByte('/')
	for i := range len(name) {
		if strings.IndexByte(escapedChars, name[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
