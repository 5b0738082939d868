package diff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestFirst: FirstFiles ends early, and reports whether there are more changed files.
func TestFirst(t *testing.T) {
	m := newMemory()
	some := spec{}
	for i := range 20 {
		some[fmt.Sprintf("f%02d", i)] = file(fmt.Sprint(i))
	}
	a, b := m.state(t, spec{}), m.state(t, some)
	for n, want := range map[int]bool{1: true, 19: true, 20: false, 30: false} {
		files, more, err := FirstFiles(context.Background(), m.src, a, b, Options{}, n)
		must.OK(t, err)
		if len(files) != min(n, 20) || more != want {
			t.Errorf("of 20 files the first %d are %d, and that there are more is %v", n, len(files), more)
		}
	}
}

// TestTextOf: the hunks equal the hunks of the patch, also for a renamed file.
func TestTextOf(t *testing.T) {
	m := newMemory()
	before := "func f() {\n1\n2\n3\n4\n5\n6\n7\n8\n9\n}\n"
	after := "func f() {\n1\n2\n3\n4\n5\nsix\n7\n8\n9\n}\n"
	a := m.state(t, spec{"old": file(before), "bin": file("\x00a"), "gone": file("x\n")})
	b := m.state(t, spec{"new": file(after), "bin": file("\x00b")})
	ctx := context.Background()
	got, err := TextOf(ctx, m.src, a, b, "new", "old", Options{})
	must.OK(t, err)
	want := Hunk{OldStart: 4, OldLines: 7, NewStart: 4, NewLines: 7, Section: "func f() {"}
	if len(got.Hunks) != 1 || fmt.Sprint(got.Hunks[0].Lines) != "[{  3} {  4} {  5} {- 6} {+ six} {  7} {  8} {  9}]" {
		t.Fatalf("%+v", got)
	}
	got.Hunks[0].Lines, got.Hunks[0].ID = nil, ""
	if fmt.Sprint(got.Hunks[0]) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", got.Hunks[0], want)
	}
	if got, err = TextOf(ctx, m.src, a, b, "bin", "", Options{}); err != nil || !got.Binary || got.Hunks != nil {
		t.Errorf("a binary file: %+v, %v", got, err)
	}
	if got, err = TextOf(ctx, m.src, a, b, "gone", "", Options{}); err != nil || len(got.Hunks) != 1 || got.NewSize != 0 {
		t.Errorf("a file that is gone: %+v, %v", got, err)
	}
	if got, err = TextOf(ctx, m.src, a, b, "nothing", "", Options{}); err != nil || got.Hunks != nil {
		t.Errorf("a file that never was: %+v, %v", got, err)
	}
}

// TestPartOfText: hunks outside of the lines that are asked for are left out, and counted.
func TestPartOfText(t *testing.T) {
	m := newMemory()
	var before strings.Builder
	for i := range 100 {
		fmt.Fprintln(&before, i)
	}
	a, b := m.state(t, spec{"f": file(before.String())}), m.state(t, spec{"f": file(strings.ReplaceAll(before.String(), "5\n", "x\n"))})
	all, err := TextOf(t.Context(), m.src, a, b, "f", "", Options{})
	must.OK(t, err)
	part, err := TextOf(t.Context(), m.src, a, b, "f", "", Options{SkipLines: 20, MaxLines: 10})
	must.OK(t, err)
	first := slices.IndexFunc(all.Hunks, func(h Hunk) bool { return h.ID == part.Hunks[0].ID })
	if first != 2 || len(part.Hunks) != 2 || part.Skipped != 2*8 {
		t.Errorf("from hunk %d on, %d of %d, %d lines skipped", first, len(part.Hunks), len(all.Hunks), part.Skipped)
	}
}
