package control

import (
	"regexp"
	"testing"
)

func TestRenderList(t *testing.T) {
	u := newUser(t)
	if got := u.read("list"); got != "no snapshots\n" {
		t.Errorf("got %q", got)
	}
	u.must(u.write(createName, `{"name":"v1"}`))
	u.must(u.write(createName, `{"name":"v2","message":"two\nlines\there"}`))
	want := `^v2\t[-0-9a-f]+\t[^\t]+Z\ttwo lines here\nv1\t[-0-9a-f]+\t[^\t]+Z\t\n$`
	if got := u.read("list"); !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("got %q", got)
	}
}
