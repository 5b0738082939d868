// Package gitquote quotes names of files as git does: names with special characters are in double
// quotes, with the escapes of C. It also escapes other texts for a terminal.
package gitquote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name quotes a name as git does (core.quotePath=true).
func Name(name string) string {
	return quote(name, func(r rune, _ int) bool { return ' ' <= r && r < 0x7f })
}

// ReadableName quotes a name for people: it escapes control characters and invalid UTF-8, but no letters of
// any language.
func ReadableName(name string) string {
	return quote(name, func(r rune, _ int) bool { return r != utf8.RuneError && unicode.IsPrint(r) })
}

// quote puts a name in double quotes if it has a quote, a backslash or a character that is not plain, and
// escapes these.
func quote(name string, plain func(r rune, size int) bool) string {
	quoted := escapeText(name, func(r rune, size int) bool { return plain(r, size) && r != '"' && r != '\\' })
	if quoted == name {
		return name
	}
	return `"` + quoted + `"`
}

// escapeText escapes the characters of a text that are not plain. size is the number of a character's
// bytes, 1 for a byte that is not UTF-8.
func escapeText(text string, plain func(r rune, size int) bool) string {
	var b strings.Builder
	for rest := text; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		if plain(r, n) {
			b.WriteString(rest[:n])
		} else {
			escape(&b, rest[:n])
		}

		rest = rest[n:]
	}

	return b.String()
}

// escape appends the escapes of all bytes to b.
func escape(b *strings.Builder, bytes string) {
	for _, c := range []byte(bytes) {
		b.WriteByte('\\')

		if i := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c); i >= 0 {
			b.WriteByte(`abtnvfr"\`[i])
			continue
		}

		b.Write([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7})
	}
}

// isControl reports whether a terminal interprets a character and does not show it: control characters
// (C0 and C1), characters that change the direction of writing, and separators of lines and paragraphs.
func isControl(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// EscapeControls returns a text from an untrusted source for a terminal. It escapes invalid UTF-8 and all control
// characters that are not in keep.
func EscapeControls(text, keep string) string {
	return escapeText(text, func(r rune, size int) bool {
		return (r != utf8.RuneError || size > 1) && (!isControl(r) || strings.ContainsRune(keep, r))
	})
}

// EscapeJSON returns an equal JSON document without control characters in its strings. It escapes the control
// characters above 0x7e, which an encoder does not escape.
func EscapeJSON(doc []byte) []byte {
	special := func(r rune) bool { return r >= 0x7f && isControl(r) }
	if bytes.IndexFunc(doc, special) < 0 {
		return doc
	}

	var b bytes.Buffer
	for _, r := range string(doc) { // the output of an encoder is valid UTF-8, so no byte is lost
		if special(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}

	return b.Bytes()
}

// JSONLen returns the length of a text in a document of Encoder, in bytes without the quotes.
func JSONLen(text string) int {
	var b bytes.Buffer
	_ = Encoder(&b).Encode(text)
	return b.Len() - len("\"\"\n")
}

// Encoder returns an encoder that writes documents as EscapeJSON returns them, without control characters in
// strings. < and > are not escaped, because people read the documents, too.
func Encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(jsonWriter{w})
	e.SetEscapeHTML(false)
	return e
}

// A jsonWriter passes documents on as EscapeJSON returns them. Each Write has one whole document.
type jsonWriter struct{ w io.Writer }

func (w jsonWriter) Write(doc []byte) (int, error) {
	if _, err := w.w.Write(EscapeJSON(doc)); err != nil {
		return 0, err
	}
	return len(doc), nil
}

// ListNames returns a text for people, with the first few of names and the number of the further names.
func ListNames(names []string) string {
	const maxShown = 5
	var shown []string
	for _, name := range names[:min(len(names), maxShown)] {
		shown = append(shown, ReadableName(name))
	}

	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}

	return text
}
