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
