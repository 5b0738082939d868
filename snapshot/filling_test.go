package snapshot

import (
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/storedir"
)

// A store that was not filled to the end is no empty workspace.
func TestFilling(t *testing.T) {
	dir := t.TempDir()
	open := func(o Options) error {
		o.Quiet = true
		s, err := Open(dir, o)
		if err != nil {
			return err
		}
		return s.Close()
	}
	if err := open(Options{Filling: "/src"}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {Filling: "/src"}} {
		if err := open(o); err == nil || !strings.Contains(err.Error(), "was being filled") {
			t.Errorf("it opens: %v", err)
		}
	}
	for range 2 {
		if err := storedir.Filled(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(Options{}); err != nil {
		t.Error(err)
	}
	if from, err := storedir.FilledFrom(dir); from != "/src" || err != nil {
		t.Errorf("it was filled from %q, %v", from, err)
	}
}
