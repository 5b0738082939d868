// Package styles has what this program makes a terminal do: colours, and lines that are drawn
// again. All else that a terminal would act on is escaped.
package styles

import (
	"crypto/rand"
	"strings"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// mark begins what this program has a terminal do. Other texts cannot contain it: it is
// another one in each process.
var mark = "\x1b" + rand.Text()

// ForTerminal makes escapes of all that a terminal would act on, but for styles.
func ForTerminal(text string) string {
	parts := strings.Split(text, mark)
	for i, p := range parts {
		code := ""
		if i > 0 {
			n := 1 + strings.IndexFunc(p, func(r rune) bool { return r >= '@' && r != '[' })
			code, p = "\x1b"+p[:n], p[n:]
		}
		parts[i] = code + gitquote.Shown(p, "\n\t")
	}
	return strings.Join(parts, "")
}

// Styles of what an output shows to a person.
var (
	Bold      = mark + "[1m"
	Red       = mark + "[31m"
	Green     = mark + "[32m"
	Cyan      = mark + "[36m"
	Reset     = mark + "[m"
	LineUp    = mark + "[A"
	LineClear = mark + "[K"
)
