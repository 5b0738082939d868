package cas

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// What Stored returns expands to the object, compressed or not.
func TestStored(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	must.OK(t, err)
	defer s.Close()
	e := NewExpander()
	defer e.Close()
	text := []byte(strings.Repeat("a line that compresses well\n", 1000))
	for _, body := range [][]byte{text, []byte("short")} {
		h, err := s.Put(KindTree, body)
		must.OK(t, err)
		rec, err := s.GetStored(h)
		must.OK(t, err)
		got, err := e.Expand(h, rec, nil)
		if err != nil || !bytes.Equal(got, body) || rec.Kind != KindTree {
			t.Fatalf("%d bytes of %d, kind %d, flags %d, %v", len(got), len(body), rec.Kind, rec.Flags, err)
		}
		if len(body) > 1000 && len(rec.Bytes) > 1000 {
			t.Errorf("%d bytes take %d", len(body), len(rec.Bytes))
		}
		if _, err := e.Expand(Sum([]byte("another")), rec, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("taken for another object: %v", err)
		}
	}
	if _, err := s.GetStored(Sum([]byte("absent"))); !errors.Is(err, ErrNotFound) {
		t.Errorf("an absent object: %v", err)
	}
}

// A part can be read of an object that is stored without compression, and of no other.
func TestPart(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	must.OK(t, err)
	defer s.Close()
	h, err := s.Put(KindData, []byte("0123456789"))
	must.OK(t, err)
	at, ok := s.PlainPlace(h)
	p := make([]byte, 4)
	if !ok || !s.ReadPlain(at, p, 3) || string(p) != "3456" {
		t.Errorf("the part is %q, %v", p, ok)
	}
	if s.ReadPlain(at, p, 7) {
		t.Error("a part ends behind the object")
	}
	if _, ok := s.PlainPlace(Sum([]byte("absent"))); ok {
		t.Error("an absent object has a place")
	}
	h, err = s.Put(KindData, []byte(strings.Repeat("compresses well\n", 1000)))
	must.OK(t, err)
	if _, ok := s.PlainPlace(h); ok {
		t.Error("a compressed object has a place")
	}
}

// A flipped bit on the disk is an error, not a record that another reader copies.
func TestStoredDamaged(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	must.OK(t, err)
	defer s.Close()
	h, err := s.Put(KindData, []byte(strings.Repeat("x", 100)))
	must.OK(t, err)
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	b, err := os.ReadFile(packs[0])
	must.OK(t, err)
	f, err := os.OpenFile(packs[0], os.O_WRONLY, 0)
	must.OK(t, err)
	defer f.Close()
	at := bytes.LastIndexByte(b, 'x')
	_, err = f.WriteAt([]byte{'y'}, int64(at))
	must.OK(t, err)
	if _, err := s.GetStored(h); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}
