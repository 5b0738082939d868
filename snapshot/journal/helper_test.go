package journal

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
)

const testDir = "/journal"

// long reports whether the exhaustive forms of the tests are asked for.
var long = os.Getenv("AMBERFS_TEST_LONG") != ""

// sample returns n in the exhaustive form of a test and few otherwise.
func sample(n, few uint64) uint64 {
	if long {
		return n
	}
	return few
}

// item is what a test remembers of a record.
type item struct {
	typ     Type
	payload []byte
	dataPos int64
	headLen int
	end     int64 // End() after it
}

func memOptions(fs vfs.FS) Options { return Options{FS: fs, SegmentSize: 16 << 10} }

func mustOpen(t testing.TB, o Options) *Journal {
	t.Helper()
	j, err := Open(testDir, o)
	must.OK(t, err)
	return j
}

func mustSync(t testing.TB, j *Journal) {
	t.Helper()
	must.OK(t, j.Sync())
}

// randomItem makes a payload that names its number, so that order shows.
func randomItem(rnd *rand.Rand, n uint64, maxLen int) (head, data []byte, typ Type) {
	head = binary.LittleEndian.AppendUint64(nil, n)
	data = make([]byte, rnd.IntN(maxLen))
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	return head, data, Type(1 + n%250)
}

// payloadPos is where the payload begins.
func (i item) payloadPos() int64 { return i.dataPos - int64(i.headLen) }

func appendItem(j *Journal, rnd *rand.Rand, n uint64, maxLen int) (item, error) {
	head, data, typ := randomItem(rnd, n, maxLen)
	pos, err := j.Append(typ, head, data, false)
	if err != nil {
		return item{}, err
	}
	return item{typ, append(head, data...), pos, len(head), j.End()}, nil
}

func collect(j *Journal, from int64) ([]item, error) {
	var got []item
	err := j.Replay(from, func(typ Type, recPos int64, payload []byte, payloadPos int64) error {
		got = append(got, item{typ: typ, payload: bytes.Clone(payload), dataPos: payloadPos})
		return nil
	})
	return got, err
}

// samePrefix fails unless got is a prefix of want.
func samePrefix(t *testing.T, got, want []item) {
	t.Helper()
	if len(got) > len(want) {
		t.Fatalf("%d records came back, %d were appended", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.typ != w.typ || !bytes.Equal(g.payload, w.payload) || g.dataPos+int64(w.headLen) != w.dataPos {
			t.Fatalf("record %d: type %d, %d bytes at %d; want type %d, %d bytes at %d",
				i, g.typ, len(g.payload), g.dataPos, w.typ, len(w.payload), w.dataPos-int64(w.headLen))
		}
	}
}

// readBack fails unless the data of every item can be read where it was put.
func readBack(t *testing.T, j *Journal, items []item) {
	t.Helper()
	for i, it := range items {
		data := it.payload[it.headLen:]
		p := make([]byte, len(data))
		if err := j.ReadAt(p, it.dataPos, it.payloadPos()); err != nil || !bytes.Equal(p, data) {
			t.Fatalf("record %d: reading %d bytes at %d: %v", i, len(p), it.dataPos, err)
		}
	}
}
