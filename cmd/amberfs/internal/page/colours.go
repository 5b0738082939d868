package page

import "strings"

// maxColoured bounds in bytes the text that is coloured.
const maxColoured = 1 << 20

// colour cuts a text into lines of coloured pieces.
func colour(path, text string) [][]token {
	lines := [][]token{}
	if text == "" {
		return lines
	}
	pieces := func(text string, emit func(class, text string)) { emit("", text) }
	if l := languageOf(path); l != nil && len(text) <= maxColoured {
		pieces = l.tokens
	}
	line, room := []token{}, maxLine
	pieces(strings.TrimSuffix(text, "\n"), func(class, text string) {
		for i, part := range strings.Split(text, "\n") {
			if i > 0 {
				lines, line, room = append(lines, line), []token{}, maxLine
			}
			if part == "" || room <= 0 {
				continue
			}
			line = append(line, token{class, cut(part, room)})
			room -= len(part)
		}
	})
	return append(lines, line)
}

// cut shortens a line that nobody could read.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " …"
}
