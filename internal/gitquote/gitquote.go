// Package gitquote writes names of files the way git does: as they are, or in
// double quotes with C escapes when they hold something that would confuse a
// reader.
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

// Readable is Name for people: letters of all languages stay. Control characters and invalid
// UTF-8 are escaped.
func Readable(name string) string {
	return quote(name, func(r rune, _ int) bool { return r != utf8.RuneError && unicode.IsPrint(r) })
}

func quote(name string, plain func(r rune, size int) bool) string {
	quoted := escaped(name, func(r rune, size int) bool { return plain(r, size) && r != '"' && r != '\\' })
	if quoted == name {
		return name
	}
	return `"` + quoted + `"`
}

// escaped is a text in which the characters that are not plain have escapes.
func escaped(text string, plain func(r rune, size int) bool) string {
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

// acts reports whether a terminal does something else with a character than show it:
// control characters (C0 and C1), those that change the direction of writing, and the
// separators of lines and paragraphs.
func acts(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// Shown is a text that another party wrote, for a terminal: what a terminal acts upon,
// but for the characters of keep, and what is no UTF-8 become escapes.
func Shown(text, keep string) string {
	return escaped(text, func(r rune, size int) bool {
		return (r != utf8.RuneError || size > 1) && (!acts(r) || strings.ContainsRune(keep, r))
	})
}

// JSON is a document of JSON in which strings have escapes for what a terminal acts
// upon; those that JSON does not ask for, too. It says the same.
func JSON(doc []byte) []byte {
	special := func(r rune) bool { return r >= 0x7f && acts(r) }
	if bytes.IndexFunc(doc, special) < 0 {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) { // an encoder writes nothing but UTF-8
		if special(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// JSONLen is the length of a text in such a document, in bytes without the quotes.
func JSONLen(text string) int {
	var b bytes.Buffer
	_ = Encoder(&b).Encode(text)
	return b.Len() - len("\"\"\n")
}

// Encoder writes documents as JSON makes them, with < and > as they are: people read them too.
func Encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(jsonWriter{w})
	e.SetEscapeHTML(false)
	return e
}

// A jsonWriter passes documents on as JSON makes them, each in one Write.
type jsonWriter struct{ to io.Writer }

func (w jsonWriter) Write(doc []byte) (int, error) {
	if _, err := w.to.Write(JSON(doc)); err != nil {
		return 0, err
	}
	return len(doc), nil
}
