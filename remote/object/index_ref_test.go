package object

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/tests/must"
)

// sample returns a pack with n records and their index, the section of the index, the objects of a ref to it, and
// the hashes of the records.
func sample(n int) (p *Pack, s Section, objects []backend.Object, hashes []cas.Hash) {
	p = &Pack{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		body := []byte(fmt.Sprint("record ", i))
		kind := []cas.Kind{cas.KindData, cas.KindTree}[r.IntN(2)]
		h := cas.Sum(body)
		p.Add(h, cas.StoredObject{Kind: kind, PlainSize: len(body), Bytes: body})
		hashes = append(hashes, h)
	}
	s = p.EncodeIndex(p.Entries)
	return p, s, []backend.Object{backend.ObjectOf(p.Bytes)}, hashes
}

func TestIndex(t *testing.T) {
	p, s, objects, hashes := sample(300)
	var x Index
	must.OK(t, x.Add(p.Bytes[s.Offset:], s, objects))
	for i, h := range hashes {
		e, ok := x.Find(h)
		if !ok || string(p.Bytes[e.Offset:e.End()]) != fmt.Sprint("record ", i) {
			t.Fatalf("record %d: %+v, %v", i, e, ok)
		}
	}
	if _, ok := x.Find(cas.Sum([]byte("nobody put this"))); ok {
		t.Error("found what is not there")
	}
	all := append(x.Entries(cas.KindTree), x.Entries(cas.KindData)...)
	slices.SortFunc(all, ByPlace)
	if !reflect.DeepEqual(all, p.Entries) {
		t.Error("the entries are not those of the pack, in its order")
	}
}

// TestEntryBounds: the largest values of an entry can be encoded and decoded.
func TestEntryBounds(t *testing.T) {
	want := Entry{Prefix: [16]byte{1, 15: 255}, Object: 1<<32 - 1, Offset: 1<<32 - 1, StoredSize: cas.MaxObject, PlainSize: cas.MaxObject, Kind: cas.KindTree, Flags: 2}
	b := want.appendTo(nil)
	if got := decodeEntry(b); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

func sampleRef() *Ref {
	return &Ref{
		Version: Version, Name: "v1", ID: cas.Sum(nil).String(), Nonce: "n", Pushed: time.Unix(5, 6).UTC(), Created: time.Unix(7, 8).UTC(),
		Labels:  map[string]string{"k": "v"},
		Objects: []backend.Object{backend.ObjectOf([]byte("x")), {Name: backend.ObjectOf(nil).Name, Size: 320}},
		Indexes: []Section{{Object: 1, Offset: 0, Entries: 10}},
	}
}

func TestRef(t *testing.T) {
	raw, err := sampleRef().Encode()
	must.OK(t, err)
	got, err := DecodeRef(raw)
	if err != nil || !reflect.DeepEqual(got, sampleRef()) {
		t.Errorf("%+v, %v", got, err)
	}
	bad := map[string]func(*Ref){
		"id":     func(r *Ref) { r.ID = "x" },
		"files":  func(r *Ref) { r.Files = -1 },
		"object": func(r *Ref) { r.Objects[0].Name = "../../etc/passwd" },
		"size":   func(r *Ref) { r.Objects[0].Size = -1 },
		"index":  func(r *Ref) { r.Indexes[0].Object = 2 },
		"offset": func(r *Ref) { r.Indexes[0].Offset = 1 },
		"count":  func(r *Ref) { r.Indexes[0].Entries = 1 << 62 },
	}
	for what, spoil := range bad {
		r := sampleRef()
		spoil(r)
		raw, _ := r.Encode()
		if _, err := DecodeRef(raw); !errors.Is(err, ErrMalformed) {
			t.Errorf("a wrong %s: %v", what, err)
		}
	}
	r := sampleRef()
	r.Version++
	raw, _ = r.Encode()
	if _, err := DecodeRef(raw); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
	raw, _ = sampleRef().Encode()
	raw = bytes.Replace(raw, []byte(`"entries":10`), []byte(`"tree":4,"data":6`), 1)
	if _, err := DecodeRef(raw); !errors.Is(err, ErrOlder) || !strings.Contains(err.Error(), `ref "v1": an amberfs before 0.1 pushed it`) {
		t.Errorf("a ref of before 0.1: %v", err)
	}
}

func FuzzRef(f *testing.F) {
	raw, _ := sampleRef().Encode()
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := DecodeRef(raw)
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Skip("times that JSON cannot hold")
		}
		r2, err := DecodeRef(again)
		must.OK(t, err)
		if third, err := r2.Encode(); err != nil || !bytes.Equal(again, third) {
			t.Fatalf("not the same once more: %v", err)
		}
	})
}

// FuzzIndex: all entries of an index that Add accepts are inside of their objects.
func FuzzIndex(f *testing.F) {
	p, s, _, _ := sample(5)
	f.Add(p.Bytes[s.Offset:], uint16(s.Offset))
	f.Fuzz(func(t *testing.T, raw []byte, size uint16) {
		s := Section{Entries: int64(len(raw) / EntrySize)}
		objects := []backend.Object{{Size: int64(size)}}
		var x Index
		if x.Add(raw, s, objects) != nil {
			return
		}
		for _, kind := range []cas.Kind{cas.KindTree, cas.KindData} {
			for _, e := range x.Entries(kind) {
				var h cas.Hash
				copy(h[:], e.Prefix[:])
				if _, ok := x.Find(h); e.End() > int64(size) || e.Kind != kind || !ok {
					t.Fatalf("taken: %+v, found again: %v", e, ok)
				}
			}
		}
	})
}
