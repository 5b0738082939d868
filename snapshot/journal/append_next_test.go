package journal

import (
	"testing"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestAppended reports the next record, and of that alone.
func TestAppended(t *testing.T) {
	j := mustOpen(t, memOptions(vfstest.NewMem()))
	defer j.Close()
	told := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	add := func() {
		t.Helper()
		_, err := j.Append(1, []byte("x"), nil, false)
		must.OK(t, err)
	}
	add()
	c := j.NextAppend()
	if told(c) {
		t.Error("of a record that was there")
	}
	add()
	add()
	if !told(c) {
		t.Error("not of the next one")
	}
	other := j.NextAppend()
	if c = j.NextAppend(); told(c) {
		t.Error("of a record that was there when it was asked again")
	}
	if add(); !told(c) || !told(other) {
		t.Error("not all who asked are told")
	}
}
