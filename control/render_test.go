package control

import (
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/snapshot"
)

func TestRenderList(t *testing.T) {
	if got := string(renderList(nil)); got != "no snapshots\n" {
		t.Errorf("got %q", got)
	}
	at := time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC)
	got := string(renderList([]snapshot.Info{
		{Name: "v2", Created: at, Message: "two\nlines\there"},
		{Name: "v1", Created: at, ID: strings.Repeat("ab", 32)},
	}))
	want := "v2\t-\t2024-05-06T07:08:09Z\ttwo lines here\nv1\tabababababab\t2024-05-06T07:08:09Z\t\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
