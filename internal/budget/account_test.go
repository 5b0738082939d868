package budget

import "testing"

// TestAccount: a tenant leaves a part of the memory to the next tenant. All tenants together leave a quarter to the
// owner. Released memory can be taken again.
func TestAccount(t *testing.T) {
	const size = 1 << 20
	fill := func(a *Account, tenant any) (n int64) {
		for a.Take(tenant, 1<<10, false) {
			n += 1 << 10
		}
		return n
	}
	a := NewAccount(size, "main")
	if a.OverHalf("fork") {
		t.Error("half of nothing is used")
	}
	one, two := fill(a, "one"), fill(a, "two")
	if one < size/2 || two < size/16 || one+two > size-size/4 {
		t.Errorf("one tenant has %d, and another %d beside it", one, two)
	}
	if !a.OverHalf("one") || !a.OverHalf("two") || a.NearlyFull() {
		t.Error("more than half of what others can have is used")
	}
	if urgent := a.Take("one", 1<<10, true); !urgent {
		t.Error("there is nothing left for what is urgent")
	}
	if main := fill(a, "main"); main < size/8 {
		t.Errorf("the owner has %d beside two that have all they can", main)
	}
	a.Add("one", size) // as for memory that is in use after a recovery
	if a.Take("two", 1, false) || a.Take("main", 1, false) {
		t.Error("there is room beyond the size")
	}
	freed := a.Freed()
	a.Release("one", size+one+1<<10)
	select {
	case <-freed:
	default:
		t.Error("nobody is told of what was given back")
	}
	if n := fill(a, "two"); n == 0 {
		t.Error("what was given back cannot be had again")
	}
}
