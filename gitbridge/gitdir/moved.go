package gitdir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// DescribeChanges describes in git's words how the refs, HEAD, the index and the operations in progress of a git
// directory changed from base to now. It reads no objects. It does not mention files that git rewrote with the same
// meaning.
func DescribeChanges(base, now Files) ([]string, error) {
	m := &Merge{Base: base, Theirs: now}
	if err := m.readSides(); err != nil {
		return nil, err
	}

	b, n := m.base, m.theirs
	lines := n.describeRefs(b)
	if n.head != b.head {
		lines = append(lines, "HEAD is at "+shortRef(n.head)+", was at "+shortRef(b.head))
	}
	if changed := len(slices.CompactFunc(indexDelta(b.entries(), n.entries()), func(e, o IndexEntry) bool { return e.Path == o.Path })); changed > 0 {
		lines = append(lines, english.Plural(changed, "path", "")+" staged, unstaged or committed")
	}

	for _, name := range operationNames {
		_, was := b.operationFiles[name]
		if _, is := n.operationFiles[name]; is != was {
			lines = append(lines, name+map[bool]string{true: " is new", false: " is gone"}[is])
		}
	}

	return lines, nil
}

// describeRefs describes the refs whose values differ from their values in the state b.
func (s *state) describeRefs(b *state) (lines []string) {
	for _, name := range keysOf(s.refs, b.refs) {
		was, is := b.refs[name], s.refs[name]
		what := shortRef("ref: " + name)

		switch {
		case was == is:
		case was == "":
			lines = append(lines, fmt.Sprintf("new %s at %s", what, shortRef(is)))
		case is == "":
			lines = append(lines, fmt.Sprintf("%s is gone, was at %s", what, shortRef(was)))
		default:
			lines = append(lines, fmt.Sprintf("%s moved from %s to %s", what, shortRef(was), shortRef(is)))
		}
	}

	return lines
}

// shortRef returns a value of a ref or of HEAD as users see it: the short name of a ref, or 7 digits of an id.
func shortRef(value string) string {
	name, isName := strings.CutPrefix(value, "ref: ")
	switch {
	case !isName:
		return value[:min(len(value), 7)]
	case strings.HasPrefix(name, branches):
		return "branch " + strings.TrimPrefix(name, branches)
	case strings.HasPrefix(name, tags):
		return "tag " + strings.TrimPrefix(name, tags)
	}

	return strings.TrimPrefix(name, "refs/")
}
