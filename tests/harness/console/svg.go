package console

import (
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sizes of the picture, in pixels.
const (
	charWidth  = 8.43 // of a monospaced font of fontSize
	fontSize   = 14
	lineHeight = 20
	margin     = 16
)

// SVG draws a session as a terminal shows it. There is nothing in it but text,
// so that it can be read aloud and searched.
func SVG(session, title string) string {
	lines := strings.Split(strings.TrimSuffix(expand(session), "\n"), "\n")
	columns := 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(l))
	}
	width, height := int(charWidth*float64(columns))+2*margin, lineHeight*len(lines)+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%s</title>
<style>
rect { fill: #16191f }
text { font: %dpx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d1d9; white-space: pre }
.prompt { fill: #e0a458 } .typed { fill: #ffffff } .note { fill: #8b949e }
</style>
<rect width="%d" height="%d" rx="8"/>
`, width, height, escape(title), fontSize, width, height)
	for i, l := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", margin, margin+fontSize+i*lineHeight, line(l))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// line is a line with its colours.
func line(l string) string {
	typed, ok := strings.CutPrefix(l, "$ ")
	if !ok && strings.HasPrefix(l, "# ") {
		return `<tspan class="note">` + escape(l) + `</tspan>`
	}
	if !ok {
		return escape(l)
	}
	note := ""
	if i := strings.Index(typed, " #"); i >= 0 {
		typed, note = typed[:i], typed[i:]
	}
	return `<tspan class="prompt">$ </tspan><tspan class="typed">` + escape(typed) + `</tspan><tspan class="note">` + escape(note) + `</tspan>`
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes all
	return b.String()
}

// expand puts spaces for tabs, as a terminal does.
func expand(s string) string {
	var b strings.Builder
	column := 0
	for _, r := range s {
		switch r {
		case '\t':
			for b.WriteByte(' '); column%8 != 7; column++ {
				b.WriteByte(' ')
			}
			column++
		case '\n':
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteRune(r)
			column++
		}
	}
	return b.String()
}
