package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUnreadSnapshots: a store that was just opened has no snapshots in memory, and lists them as
// before. What they refer to stays when gc runs, and so do changes of some of them.
func TestUnreadSnapshots(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Quiet: true})
	must.OK(t, err)
	f, err := s.forest.Create(s.Main().Root(), "file", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	for i := range 60 {
		_, err := s.forest.Write(f.ID, fmt.Appendf(nil, "state %d", i), 0, false)
		must.OK(t, err)
		o := CaptureOptions{Message: fmt.Sprint("number ", i), Kind: info.KindTurn}
		switch i % 4 {
		case 1:
			o.Name = fmt.Sprint("named", i)
		case 2:
			o.Labels = map[string]string{"turn": fmt.Sprint(i)}
		case 3:
			o.Expires = "1h"
		}
		_, err = s.Main().Capture(o)
		must.OK(t, err)
	}
	must.OK(t, s.Checkpoint(t.Context()))
	want := s.Main().List()
	must.OK(t, s.Close())

	text := func(list []info.Info) string {
		b, err := json.Marshal(list)
		must.OK(t, err)
		return string(b)
	}
	unread := func() (n int) {
		views := map[uint32]bool{}
		for view := range s.cat.Snapshots.Loaded() {
			views[view] = true
		}
		for _, i := range want {
			if !views[i.View] {
				n++
			}
		}
		return n
	}
	open := func() {
		s, err = Open(dir, Options{Quiet: true})
		must.OK(t, err)
		if n := unread(); n < len(want)-2 {
			t.Errorf("%d of %d snapshots are not in memory", n, len(want))
		}
	}
	open()
	var retained []uint64
	for i := range s.Main().Snapshots().retained() {
		retained = append(retained, i.Seq)
	}
	if got := s.Main().List(); text(got) != text(want) || len(retained) != len(want) {
		t.Fatalf("the list is\n%s\nnot\n%s", text(got), text(want))
	}
	reach, err := s.Reachable(t.Context())
	must.OK(t, err)
	if n := unread(); n < len(want)-2 {
		t.Errorf("lists and roots have read all but %d snapshots", n)
	}
	for _, i := range want {
		found, err := s.Main().Find(i.ID[:12])
		if must.OK(t, err); found.View != i.View {
			t.Errorf("%s is found for the id of %s", found.Name, i.Name)
		}
	}
	must.OK(t, s.Close())

	open()
	_, err = s.Main().Snapshots().DeleteAll([]string{want[5].Name, want[6].Name, want[20].Name}, actors.Caller{})
	must.OK(t, err)
	again, err := s.Reachable(t.Context())
	must.OK(t, err)
	if len(again) > len(reach) {
		t.Errorf("%d objects are reachable, %d before", len(again), len(reach))
	}
	_, err = s.GC(t.Context(), nil)
	must.OK(t, err)
	want = slices.DeleteFunc(want, func(i info.Info) bool {
		return i.View == want[5].View || i.View == want[6].View || i.View == want[20].View
	})
	must.OK(t, s.Close())
	open()
	defer func() { must.OK(t, s.Close()) }()
	if got := s.Main().List(); text(got) != text(want) {
		t.Errorf("the list is\n%s\nnot\n%s", text(got), text(want))
	}
	r, err := s.Verify(t.Context(), nil)
	if must.OK(t, err); !r.OK() {
		t.Errorf("verify: %+v", r)
	}
}
