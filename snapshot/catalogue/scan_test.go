package catalogue

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/tests/must"
)

// TestScan: scanSnapshot decodes records as json.Unmarshal does, also damaged ones, or refuses them.
func TestScan(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	texts := []string{"", "cp-1", "a \"b\" <&> \n", "ü", "\u2028", "x\x00y"}
	text := func() string { return texts[rnd.IntN(len(texts))] }
	number := func() int64 { return rnd.Int64N(1 << rnd.IntN(63)) }
	scanned, damaged := 0, 0
	for n := range 3000 {
		r := SnapshotRecord{View: rnd.Uint32(), WS: rnd.Uint32N(3), DirState: text(), Info: info.Info{
			Name: text(), Seq: uint64(number()), Parent: text(), Kind: info.Kinds[rnd.IntN(len(info.Kinds))], Message: text(),
			Created: time.Unix(number()%(1<<35), number()%1e9).In(time.FixedZone("", 3600*rnd.IntN(3))), Files: number(), Bytes: number(),
			Process: info.Process{UID: rnd.Uint32(), PID: rnd.Uint32(), Command: text()}, Pinned: rnd.IntN(2) == 0, Sealed: rnd.IntN(2) == 0,
			Events: info.Events{Counts: info.Counts{Created: number(), Deleted: 1}, LastEvent: uint64(number())},
			Origin: info.Origin{Claim: text(), Compacted: rnd.IntN(2) == 0},
		}}
		if rnd.IntN(2) == 0 {
			r.ID, r.ActorSets, r.Actors = cas.Hash{byte(n)}.String(), []cas.Hash{{1}, {byte(n)}}, []string{text(), "b"}
		}
		if rnd.IntN(2) == 0 {
			r.Labels, r.Lineage = map[string]string{"k": text(), text(): "v"}, []string{cas.Hash{2}.String()}
		}
		if rnd.IntN(3) == 0 {
			at := time.Unix(number()%(1<<35), 0).UTC()
			r.Expires = &at
		}
		if rnd.IntN(5) == 0 {
			r.FormerIDs, r.Undoes = []string{"x"}, &ActorUndo{By: text()}
		}
		b, err := json.Marshal(&r)
		must.OK(t, err)
		if rnd.IntN(2) == 0 {
			b[rnd.IntN(len(b))] = byte(rnd.Uint32())
			damaged++
		}
		var want SnapshotRecord
		err = json.Unmarshal(b, &want)
		got, ok := scanSnapshot(string(b))
		if !ok {
			continue
		}
		scanned++
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nis scanned as\n%+v\nnot\n%+v, %v", b, got, want, err)
		}
	}
	if scanned < 1000 || damaged < 1000 {
		t.Errorf("%d are scanned, %d damaged", scanned, damaged)
	}
}
