package catalogue

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestStaleNames: checkpoints of earlier programs have a list of views.
func TestStaleNames(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:              "",
		`{"stale":[3,7]}`: "3 7 ",
		`{"stale":[3],"stale_names":{"5":["YQ=="]}}`: "3 5a ",
	} {
		var r StoreRecord
		must.OK(t, json.Unmarshal([]byte(text), &r))

		got := ""
		names := r.StaleNames()
		for _, view := range []uint32{3, 5, 7} {
			if list, ok := names[view]; ok {
				got += string(rune('0'+view)) + string(slices.Concat(list...)) + " "
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestOldPolicy: the policies of stores of earlier programs say nothing of undo, and can say that it is off.
func TestOldPolicy(t *testing.T) {
	for text, want := range map[string]int64{`{"policy":{}}`: 86400, `{"policy":{"undo_seconds":0}}`: 0} {
		var w WorkspaceRecord
		must.OK(t, json.Unmarshal([]byte(text), &w))
		r, err := Decode(TypePolicy, []byte(text))
		must.OK(t, err)
		if p := r.(*SetPolicy).Policy; w.Policy.UndoSeconds != want || p.UndoSeconds != want {
			t.Errorf("%s: %d and %d, want %d", text, w.Policy.UndoSeconds, p.UndoSeconds, want)
		}
	}
}
