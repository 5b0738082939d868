// Package styles writes escape sequences to a terminal: colours, and lines that are redrawn. All
// other control characters in a text are escaped.
package styles

import (
	"crypto/rand"
	"strings"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// sequenceMark precedes each escape sequence of this program. Other texts cannot contain it, because it is
// random in each process.
var sequenceMark = "\x1b" + rand.Text()

// ForTerminal escapes all control characters in a text except the sequences of this package.
func ForTerminal(text string) string {
	parts := strings.Split(text, sequenceMark)
	for i, p := range parts {
		code := ""
		if i > 0 {
			n := 1 + strings.IndexFunc(p, func(r rune) bool { return r >= '@' && r != '[' })
			code, p = "\x1b"+p[:n], p[n:]
		}

		parts[i] = code + gitquote.EscapeControls(p, "\n\t")
	}

	return strings.Join(parts, "")
}

// The escape sequences.
var (
	Bold      = sequenceMark + "[1m"
	Red       = sequenceMark + "[31m"
	Green     = sequenceMark + "[32m"
	Cyan      = sequenceMark + "[36m"
	Reset     = sequenceMark + "[m"
	CursorUp  = sequenceMark + "[A"
	ClearLine = sequenceMark + "[K"
)
