package hostdir

import (
	"errors"
	"fmt"
	"strings"
)

// LeftOut counts the paths of a directory that were left out because they cannot be read.
type LeftOut struct {
	n     int
	first []string
	links []string // `.git` files that lead to a repository that does not name the directory
	temps int      // temporary files of an interrupted apply
}

const namedPaths = 3

// Add counts a path that cannot be read.
func (l *LeftOut) Add(_ string, reason error) {
	if errors.Is(reason, ErrInterrupted) {
		l.temps++
		return
	}

	if errors.Is(reason, ErrNotBack) {
		l.links = append(l.links, reason.Error())
		return
	}

	if l.n++; l.n <= namedPaths {
		l.first = append(l.first, reason.Error()) // the text has the path
	}
}

// Of describes the paths that were left out of a directory, "" if there are none.
func (l *LeftOut) Of(dir string) string {
	var said []string
	if l.n > 0 {
		text := strings.Join(l.first, ", ")
		if more := l.n - len(l.first); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}

		what := fmt.Sprintf("%d paths of %s cannot be read, and their contents are left out: ", l.n, dir)
		if l.n == 1 {
			what = "a path of " + dir + " cannot be read, and its contents are left out: "
		}

		said = append(said, what+text)
	}

	if len(l.links) > 0 {
		said = append(said, "git is left out: "+strings.Join(l.links[:min(len(l.links), namedPaths)], ", "))
	}
	if l.temps > 0 {
		said = append(said, fmt.Sprintf("an apply to %s was interrupted, and its temporary files (%s…) are left out: apply that run again, which removes them", dir, tempPrefix))
	}

	return strings.Join(said, "; ")
}
