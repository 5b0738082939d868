package page

import (
	"crypto/sha256"
	"embed"
	"io/fs"
	"strings"
	"sync"

	"github.com/alecthomas/chroma/v2"
)

// languages has a file for each language that is coloured. Chroma's own package of them
// reads 279 when the program starts, which takes each command 8 ms and 2.7 MB, whether
// it shows a file or not.
//
//go:generate sh -c "cd lexers && go run generate.go"
//go:embed lexers/*.xml
var languages embed.FS

var lexers = sync.OnceValue(func() *chroma.LexerRegistry {
	all := chroma.NewLexerRegistry()
	files, _ := fs.Glob(languages, "lexers/*.xml") // the pattern is right
	for _, name := range files {
		all.Register(chroma.MustNewXMLLexer(languages, name))
	}
	return all
})

// maxColoured bounds in bytes the text that is coloured: a lexer is some hundred
// times slower than a look.
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
	lexer := lexers().Match(path[strings.LastIndexByte(path, '/')+1:])
	if lexer == nil || len(text) > maxColoured {
		return plain(text)
	}
	found, err := chroma.Coalesce(lexer).Tokenise(nil, text)
	if err != nil {
		return plain(text)
	}
	var lines [][]token
	for _, line := range chroma.SplitTokensIntoLines(found.Tokens()) {
		out, left := []token{}, maxLine
		for _, t := range line {
			s := strings.TrimSuffix(t.Value, "\n")
			if s == "" {
				continue
			}
			if len(s) > left {
				out = append(out, token{"", cut(s, left)})
				break
			}
			left -= len(s)
			out = append(out, token{class(t.Type), s})
		}
		lines = append(lines, out)
	}
	return lines
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

// class is the few that the page has colours for.
func class(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Keyword):
		return "k"
	case t.InCategory(chroma.Comment):
		return "c"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InSubCategory(chroma.LiteralNumber):
		return "n"
	case t.InSubCategory(chroma.NameFunction), t == chroma.NameClass, t == chroma.NameTag:
		return "f"
	}
	return ""
}
