package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxPage bounds in bytes what a tool answers at once: a model can take only so
// much.
const maxPage = 40 << 10

// paging is what tools with long texts take.
type paging struct {
	StartIndex int `json:"start_index,omitempty" jsonschema:"where to go on in a long text, in bytes; see next_index of the answer"`
	MaxLength  int `json:"max_length,omitempty" jsonschema:"at most so many bytes at once, up to 40960"`
}

// page is a part of a text.
type page struct {
	Text        string `json:"text"`
	TotalLength int    `json:"total_length" jsonschema:"of the whole text, in bytes"`
	NextIndex   int    `json:"next_index,omitempty" jsonschema:"start_index of what follows"`
}

// of cuts a page out of a text, at ends of lines if there are any.
func (p paging) of(text string) (string, page, error) {
	if p.StartIndex < 0 || p.StartIndex > len(text) || p.MaxLength < 0 {
		return "", page{}, fmt.Errorf("start_index is %d and max_length %d, of a text of %d bytes", p.StartIndex, p.MaxLength, len(text))
	}
	limit := maxPage
	if p.MaxLength > 0 {
		limit = min(p.MaxLength, maxPage)
	}
	out := page{Text: text[p.StartIndex:], TotalLength: len(text)}
	if len(out.Text) > limit {
		out.Text = cut(out.Text, limit)
		out.NextIndex = p.StartIndex + len(out.Text)
	}
	shown := out.Text
	if out.NextIndex > 0 {
		shown += fmt.Sprintf("\n[%d of %d bytes; go on with start_index %d]", out.NextIndex, out.TotalLength, out.NextIndex)
	}
	return shown, out, nil
}

// cut is the beginning of a text, of at most limit bytes.
func cut(text string, limit int) string {
	if i := strings.LastIndexByte(text[:limit], '\n'); i >= 0 {
		return text[:i+1]
	}
	for limit > 1 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
