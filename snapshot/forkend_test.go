package snapshot

import (
	"errors"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/tests/must"
)

// TestEndOfFork: what is in a fork does not keep the fork from ending; the policy of the
// parent does.
func TestEndOfFork(t *testing.T) {
	now := time.Now()
	w := openAt(t, &now).Main()
	user := actors.Caller{UID: 1000, ViaSocket: true}
	begin := func(name string) {
		t.Helper()
		f, err := w.Forks().New(ForkOptions{Name: name})
		must.OK(t, err)
		p := f.Policy()
		p.Delete, p.MinAgeSeconds = "nobody", 3600
		must.OK(t, f.SetPolicy(p, actors.Caller{}))
		capture(t, f, CaptureOptions{Name: "v1", Pinned: true})
	}
	end := map[string]func(string, actors.Caller) error{
		"end":     func(name string, c actors.Caller) error { _, err := w.Forks().End(name, c); return err },
		"discard": w.Forks().Discard,
	}
	for how, end := range end {
		begin(how)
		if err := end(how, user); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	p := w.Policy()
	p.MinAgeSeconds = 60
	must.OK(t, w.SetPolicy(p, actors.Caller{}))
	for how, end := range end {
		begin(how)
		if err := end(how, user); !errors.Is(err, errs.Protected) {
			t.Errorf("%s of a young fork: %v", how, err)
		}
		now = now.Add(time.Minute)
		f, _ := w.Forks().Named(how)
		capture(t, f, CaptureOptions{Name: "v2", Pinned: true})
		if err := end(how, user); err != nil {
			t.Errorf("%s of an old fork with a new snapshot: %v", how, err)
		}
	}
	p.Delete = "nobody"
	must.OK(t, w.SetPolicy(p, actors.Caller{}))
	begin("kept")
	now = now.Add(time.Hour)
	if _, err := w.Forks().End("kept", user); !errors.Is(err, errs.Protected) {
		t.Errorf("against the policy of the parent: %v", err)
	}
}
