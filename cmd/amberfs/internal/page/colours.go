package page

import (
	"crypto/sha256"
	"strings"
	"sync"
)

// maxColoured bounds in bytes the text that is coloured.
const maxColoured = 1 << 20

// colours keeps the lines of the file that was shown last, for the next part of
// it.
type colours struct {
	mu    sync.Mutex
	key   [sha256.Size]byte
	saved [][]token
}

// lines cuts a text into coloured lines.
func (c *colours) lines(path string, b []byte) [][]token {
	h := sha256.New()
	h.Write([]byte(path + "\x00"))
	h.Write(b)
	key := [sha256.Size]byte(h.Sum(nil))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saved == nil || c.key != key {
		c.key, c.saved = key, colour(path, strings.ToValidUTF8(string(b), "\uFFFD"))
	}
	return c.saved
}

func colour(path, text string) [][]token {
	l := languageOf(path)
	if l == nil || len(text) > maxColoured {
		return plain(text)
	}
	lines := [][]token{}
	if text == "" {
		return lines
	}
	line, room := []token{}, maxLine
	l.tokens(strings.TrimSuffix(text, "\n"), func(class, text string) {
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

func plain(text string) [][]token {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return [][]token{}
	}
	var lines [][]token
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, []token{{"", cut(line, maxLine)}})
	}
	return lines
}

// cut shortens a line that nobody could read.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " …"
}
