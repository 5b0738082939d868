package cas

import (
	"context"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestKillWithinDecide: a kill after some of the dead have left the index, and before the
// figures of their pack have changed, is made good by the next collection.
func TestKillWithinDecide(t *testing.T) {
	_, dir, o, blobs := damageStore(t)
	s := openTest(t, dir, o)
	b := s.index.db.Batch(nil)
	b.Delete(objectKey(Sum(blobs[5])))
	must.OK(t, b.Commit())
	closeTest(t, s)
	s = openTest(t, dir, o)
	kept := append(blobs[:5:5], blobs[6])
	collectAllBut(t, s, kept)
	if st := s.Stats(); st.Objects != int64(len(kept)) {
		t.Errorf("%d objects, want %d", st.Objects, len(kept))
	}
	closeTest(t, s)
	s = openTest(t, dir, o)
	if st := s.Stats(); st.Objects != int64(len(kept)) {
		t.Errorf("%d objects after opening again, want %d", st.Objects, len(kept))
	}
	before := collectionCount(s.manifest)
	collectAllBut(t, s, kept)
	if n := collectionCount(s.manifest); n != before {
		t.Error("the pack is swept once more")
	}
	verifyClean(t, s)
	if _, err := s.Verify(context.Background(), nil, func(d Damage) { t.Error(d) }); err != nil {
		t.Error(err)
	}
}
