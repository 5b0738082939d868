package cas

import (
	"context"
	"errors"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestPutHeals: whatever has found an object damaged, also before a restart, the next Put of
// it that succeeds stores it again.
func TestPutHeals(t *testing.T) {
	found := map[string]func(t *testing.T, s *Store, h Hash){
		"get":    func(t *testing.T, s *Store, h Hash) { _, _ = s.Get(h, nil) },
		"verify": func(t *testing.T, s *Store, h Hash) { damages(t, s) },
	}
	for by, find := range found {
		for _, at := range []int64{10, headerSize + 10} { // in the header, in the body
			if by == "get" && at < headerSize {
				continue // it reads only the body
			}
			for _, between := range []string{"nothing", "restart", "kill", "full disk", "gc"} {
				t.Run(by+" "+between, func(t *testing.T) {
					fsys, dir, o, blobs := damageStore(t)
					b := blobs[5]
					h := Sum(b)
					s := openTest(t, dir, o)
					l, _, err := s.index.find(h)
					must.OK(t, err)
					flip(t, fsys, packFiles(t, fsys, dir)[0], l.off+at, 3)
					find(t, s, h)
					switch between {
					case "restart":
						closeTest(t, s)
						s = openTest(t, dir, o)
					case "kill":
						s.abandon()
						s = openTest(t, dir, o)
					case "full disk":
						fsys.SetCapacity(fsys.Used())
						s.packs.tail.mustCheckSpace = true
						if _, err := s.Put(KindData, b); !errors.Is(err, ErrNoSpace) {
							t.Fatalf("put on a full disk: %v", err)
						}
						fsys.SetCapacity(1 << 40)
					case "gc":
						collectAllBut(t, s, blobs)
					}
					if before := s.Stats(); before.Objects != int64(len(blobs)) {
						t.Errorf("%d objects", before.Objects)
					}
					put(t, s, b)
					commit(t, s, MetaOp{Key: "x", Value: []byte("y")})
					if s.Stats().Objects != int64(len(blobs)) {
						t.Errorf("%d objects once it is healed", s.Stats().Objects)
					}
					wantObject(t, s, b)
					before := s.packs.tail.pack.end
					put(t, s, b)
					if s.packs.tail.pack.end != before {
						t.Error("it is stored once more")
					}
					closeTest(t, s)
					s = openTest(t, dir, o)
					wantObject(t, s, b)
					before = s.Stats().StoredBytes
					put(t, s, b)
					if s.Stats().StoredBytes != before {
						t.Error("it is stored once more after a restart")
					}
					if len(s.index.damageMarks) > 0 {
						t.Errorf("%d marks are left", len(s.index.damageMarks))
					}
					if _, err := s.Verify(context.Background(), nil, func(Damage) {}); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
