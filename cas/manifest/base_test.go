package manifest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestBlocks: entries in blocks are as those of a map, whatever is set and deleted, before and after
// the log is written anew and opened again. Versions without blocks read the same entries.
func TestBlocks(t *testing.T) {
	fsys := newDisk(t)
	m := create(t, fsys)
	rnd := rand.New(rand.NewPCG(5, 6))
	entries := map[string]string{}
	for n := range 400 {
		var ops []Op
		seen := map[string]bool{}
		for range rnd.IntN(20) {
			key := fmt.Sprintf("%s/%03x", []string{"snap", "ws", "z"}[rnd.IntN(3)], rnd.IntN(200))
			if seen[key] {
				continue
			}
			if seen[key] = true; rnd.IntN(3) == 0 {
				ops = append(ops, Op{Key: key, Delete: true})
				delete(entries, key)
				continue
			}
			v := make([]byte, rnd.IntN(6000))
			rand.NewChaCha8([32]byte{byte(n), byte(len(ops))}).Read(v)
			ops = append(ops, Op{Key: key, Value: v})
			entries[key] = string(v)
		}
		commit(t, m, ops...)
		if n%20 == 0 {
			if n%40 == 0 {
				must.OK(t, m.Close())
				m = open(t, fsys, options())
			}
			want(t, m, entries)
			if m.state.count != len(entries) {
				t.Fatalf("%d entries are counted, not %d", m.state.count, len(entries))
			}
		}
		key := fmt.Sprintf("snap/%03x", rnd.IntN(200))
		v, ok, err := m.Get(key)
		if w, there := entries[key]; err != nil || ok != there || string(v) != w {
			t.Fatalf("%s: %d bytes, %v, %v; want %d, %v", key, len(v), ok, err, len(w), there)
		}
		part := maps.Clone(entries)
		maps.DeleteFunc(part, func(k, _ string) bool { return k[:2] != "ws" })
		must.OK(t, m.Scan("ws", func(k string, v []byte) error {
			if part[k] != string(v) {
				t.Errorf("%s has another value", k)
			}
			delete(part, k)
			return nil
		}))
		if len(part) > 0 {
			t.Fatalf("%d entries are left out", len(part))
		}
	}
	if len(m.state.base.blocks) < 5 {
		t.Fatalf("%d blocks", len(m.state.base.blocks))
	}
	must.OK(t, m.rebase())
	var body bytes.Buffer
	must.OK(t, m.state.base.write(&body))
	before := map[string]string{}
	must.OK(t, decode(bytes.NewReader(body.Bytes()), func(op Op) error { before[op.Key] = string(op.Value); return nil }))
	if !maps.Equal(before, entries) {
		t.Errorf("a version without blocks reads %d entries, not %d", len(before), len(entries))
	}
}

// TestEarlierVersion: a log without blocks is read, and written anew with blocks by the next commit.
func TestEarlierVersion(t *testing.T) {
	fsys := newDisk(t)
	m := create(t, fsys)
	var ops []Op
	for i := range 1000 {
		ops = append(ops, Op{Key: fmt.Sprintf("snap/%03x", i), Value: bytes.Repeat([]byte{byte(i)}, 500)})
	}
	for i := range m.copies { // as earlier versions wrote it
		f := &m.copies[i]
		f.end = 0
		n, err := m.writeRecord([]*copyFile{f}, 1, func(w io.Writer) error { return encode(w, m.encoder, len(ops), slices.Values(ops)) })
		must.OK(t, err)
		must.OK(t, f.Truncate(n))
	}
	must.OK(t, m.Close())
	m = open(t, fsys, options())
	entries := all(t, m)
	if m.state.base != nil || len(entries) != len(ops) {
		t.Fatalf("%d entries, want %d; blocks: %v", len(entries), len(ops), m.state.base != nil)
	}
	commit(t, m, Op{Key: "x", Value: []byte("y")})
	entries["x"] = "y"
	want(t, m, entries)
	m = open(t, fsys, options())
	want(t, m, entries)
	clean(t, m)
	if m.state.base == nil || len(m.state.changed) > 0 {
		t.Error("the entries are not in blocks")
	}
}

// FuzzBase: whatever bytes a body has, it is read as a base with the entries of its directory, refused, or
// left to decode.
func FuzzBase(f *testing.F) {
	fsys, _ := small(f)
	whole, err := vfs.ReadFile(fsys, dir+"/"+copyNames[0])
	must.OK(f, err)
	s := &state{changed: map[string][]byte{"a": []byte("1"), "b": []byte("2")}, count: 2, bytes: 4}
	b, err := newBase(newEncoder(), s)
	must.OK(f, err)
	var body bytes.Buffer
	must.OK(f, b.write(&body))
	f.Add(body.Bytes())
	f.Add(whole[headerSize:])
	for i := range body.Len() {
		flipped := bytes.Clone(body.Bytes())
		flipped[i] ^= 1 << (i % 8)
		f.Add(flipped)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := readBase(body)
		n := 0
		if err := b.each("", func(string, []byte) error { n++; return nil }); err == nil && b != nil && n != b.count {
			t.Fatalf("%d entries of %d", n, b.count)
		}
	})
}
