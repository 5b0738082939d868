// Package gitquote writes names of files the way git does: as they are, or in
// double quotes with C escapes when they hold something that would confuse a
// reader.
package gitquote

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name writes a name as git writes and reads it (core.quotePath=true): all that
// is not printable ASCII is escaped.
func Name(name string) string {
	return quote(name, func(r rune) bool { return ' ' <= r && r < 0x7f })
}

// Needed reports whether Name changes a name.
func Needed(name string) bool { return Name(name) != name }

// Readable is Name for people: letters of all languages stay as they are.
// Control characters, also those that change the direction of writing, and what
// is no UTF-8 are escaped.
func Readable(name string) string {
	return quote(name, func(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) })
}

func quote(name string, plain func(rune) bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for rest := name; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		if plain(r) && r != '"' && r != '\\' {
			b.WriteString(rest[:n])
		} else {
			escape(&b, rest[:n])
		}
		rest = rest[n:]
	}
	if b.Len() == 1+len(name) {
		return name
	}
	b.WriteByte('"')
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
