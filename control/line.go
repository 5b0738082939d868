package control

import (
	"fmt"
	"strings"

	"github.com/amberfs/amberfs/snapshot/live"
)

// maxCommand is how long what is written to a control file may be, in bytes.
const maxCommand = 1 << 20

// splitLine splits what was written to `create` into the name and the message.
func splitLine(line string) (name, message string) {
	line = strings.TrimSpace(line)
	i := strings.IndexAny(line, " \t\r\n")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.TrimSpace(line[i:])
}

// splitFields splits a line at blanks. As in a shell, a field in double quotes
// may have blanks in it, and a backslash takes the character after it as it is.
func splitFields(line string) ([]string, error) {
	var fields []string
	var b strings.Builder
	inField, quoted := false, false
	for i := 0; i < len(line); i++ {
		ch := line[i]
		switch {
		case ch == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			inField = true
		case ch == '"':
			quoted = !quoted
			inField = true
		case !quoted && strings.IndexByte(" \t\r\n", ch) >= 0:
			if inField {
				fields = append(fields, b.String())
				b.Reset()
			}
			inField = false
		default:
			b.WriteByte(ch)
			inField = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed: %w", live.ErrInvalid)
	}
	if inField {
		fields = append(fields, b.String())
	}
	return fields, nil
}
