package service

import "testing"

// TestCosts: each operation says what it costs, and those that allocate say from what.
func TestCosts(t *testing.T) {
	for _, o := range ops {
		if o.Cost == 0 || (o.Cost == Allocates) != (o.Charges != 0) {
			t.Errorf("%s costs %d and charges %d", o.Name, o.Cost, o.Charges)
		}
	}
	for name, want := range map[string]Cost{"blame": Allocates, "forks": Compares, "summaries": Allocates, "merge": Allocates, "undo-by": Allocates,
		"compact": Compares, "conflict": Allocates, "export": Allocates, "diff": Allocates, "snapshot": Cheap, "status": Cheap} {
		if o, err := findOp(name); err != nil || o.Cost != want {
			t.Errorf("%s costs %v, not %v: %v", name, o.Cost, want, err)
		}
	}
}
