package service

import "testing"

func TestSessionActor(t *testing.T) {
	for _, c := range [][3]string{
		{"claude", "4f2a-1", "claude/4f2a-1"}, {"generic", "", "generic"}, {"x y", "../z", "x_y/___z"}, {"codex", "-a", "codex/a"},
	} {
		if got := SessionActor(c[0], c[1]); got != c[2] {
			t.Errorf("%q of %q: %s, want %s", c[1], c[0], got, c[2])
		}
	}
}
