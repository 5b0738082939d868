package mounts

import "testing"

func TestMountTable(t *testing.T) {
	m, err := At("/proc")
	if err != nil || m == nil || m.FSType != "proc" {
		t.Errorf("at /proc: %+v, %v", m, err)
	}
	if m, err := At("/proc/none"); err != nil || m != nil {
		t.Errorf("where nothing is mounted: %+v, %v", m, err)
	}
}
