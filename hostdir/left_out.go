package hostdir

import (
	"errors"
	"fmt"
	"strings"
)

// LeftOut counts the paths of a directory that were left out because they cannot be read.
type LeftOut struct {
	unreadableCount int
	firstReasons    []string
	linkReasons     []string // why `.git` files were left out: their repository does not name the directory
	tempCount       int      // temporary files of an interrupted apply
}

// maxNamedPaths is the largest number of paths that Describe lists.
const maxNamedPaths = 3

// Add counts a path that was left out for a reason.
func (l *LeftOut) Add(_ string, reason error) {
	if errors.Is(reason, ErrInterrupted) {
		l.tempCount++
		return
	}

	if errors.Is(reason, ErrNoBackLink) {
		l.linkReasons = append(l.linkReasons, reason.Error())
		return
	}

	if l.unreadableCount++; l.unreadableCount <= maxNamedPaths {
		l.firstReasons = append(l.firstReasons, reason.Error()) // the text of reason contains the path
	}
}

// Describe returns a text about the paths that were left out of a directory, "" if there are none.
func (l *LeftOut) Describe(dir string) string {
	var texts []string
	if l.unreadableCount > 0 {
		text := strings.Join(l.firstReasons, ", ")
		if more := l.unreadableCount - len(l.firstReasons); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}

		heading := fmt.Sprintf("%d paths of %s cannot be read, and their contents are left out: ", l.unreadableCount, dir)
		if l.unreadableCount == 1 {
			heading = "a path of " + dir + " cannot be read, and its contents are left out: "
		}

		texts = append(texts, heading+text)
	}

	if len(l.linkReasons) > 0 {
		texts = append(texts, "git is left out: "+strings.Join(l.linkReasons[:min(len(l.linkReasons), maxNamedPaths)], ", "))
	}
	if l.tempCount > 0 {
		texts = append(texts, fmt.Sprintf("an apply to %s was interrupted, and its temporary files (%s…) are left out: apply that run again, which removes them", dir, tempPrefix))
	}

	return strings.Join(texts, "; ")
}
