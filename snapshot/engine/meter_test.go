package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestUnsharedLimit: a fork, with the forks in it, has no more bytes of its own than the
// policy of main allows; what is shared, deleted or written again does not count.
func TestUnsharedLimit(t *testing.T) {
	dir := t.TempDir()
	s := stores.Open(t, dir)
	w, forest := s.Main(), s.Forest()
	write := func(w *snapshot.Workspace, name string, size int) error {
		t.Helper()
		id, err := forest.Lookup(w.Root(), name)
		if err != nil {
			a, err := forest.Create(w.Root(), name, live.NewNode{Mode: unix.S_IFREG | 0o644})
			if err != nil {
				return err
			}
			id = a
		}
		p := make([]byte, size)
		rand.NewChaCha8([32]byte{byte(len(name)), name[0]}).Read(p)
		_, err = forest.Write(id.ID, p, 0, false)
		return err
	}
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errs.Quota) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// soon waits until it is counted again, which is ten times as long as counting took.
	soon := func(what string, fn func() error) {
		t.Helper()
		await.True(t, what, func() bool { return fn() == nil })
	}
	must(write(w, "before", 3<<20))
	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f"})
	must(err)
	_, err = w.PatchPolicy([]byte(`{"forks":{"unshared_bytes":1000000}}`), actors.Caller{})
	must(err)
	must(write(w, "main", 3<<20))
	for range 5 {
		soon("what takes the place of others", func() error { return write(f, "a", 400_000) })
	}
	soon("up to the limit", func() error { return write(f, "b", 400_000) })
	refused("beyond the limit", write(f, "c", 400_000))
	if a, err := forest.Lookup(f.Root(), "a"); err != nil || a.Size != 400_000 {
		t.Errorf("what was acknowledged: %v, %v", a, err)
	}
	_, err = f.Capture(snapshot.CaptureOptions{Name: "v"})
	must(err)
	_, err = f.Snapshots().WaitSealed(t.Context(), "v")
	must(err)
	_, err = forest.Unlink(f.Root(), "a")
	must(err)
	refused("a snapshot has what was removed", write(f, "c", 400_000))
	g, err := f.Forks().New(snapshot.ForkOptions{Name: "g"})
	must(err)
	refused("a fork in it", write(g, "c", 400_000))
	_, err = f.Snapshots().DeleteAll([]string{"v"}, actors.Caller{})
	must(err)
	soon("there is room again", func() error { return write(g, "c", 400_000) })
	refused("the fork in it has that", write(f, "d", 400_000))
	if used, limit := f.Quota().Usage(); limit != 1_000_000 || used < 800_000 || used > limit {
		t.Errorf("it has %d of %d", used, limit)
	}

	must(s.Close())
	s = stores.Open(t, dir)
	forest = s.Forest()
	f, err = s.Main().Forks().Named("f")
	must(err)
	refused("after it was opened again", write(f, "e", 400_000))
	must(write(f, "e", 100_000))
	must(write(s.Main(), "e", 3<<20))
}

// TestUnsharedRewritten: bytes count whole, whatever was there before and however files
// refer to them; so do exports.
func TestUnsharedRewritten(t *testing.T) {
	s := stores.Open(t, t.TempDir())
	w, forest := s.Main(), s.Forest()
	rnd := rand.NewChaCha8([32]byte{1})
	write := func(id live.NodeID, n int) {
		t.Helper()
		for off := 0; off < n; off += 1 << 20 {
			p := make([]byte, min(1<<20, n-off))
			rnd.Read(p)
			_, err := forest.Write(id, p, int64(off), false)
			must.OK(t, err)
		}
	}
	const size = 4 << 20
	write(stores.Write(t, s, w.Root(), "file", ""), size)
	_, err := w.Capture(snapshot.CaptureOptions{Name: "v"})
	must.OK(t, err)
	_, err = w.Snapshots().WaitSealed(t.Context(), "v")
	must.OK(t, err)
	_, err = w.PatchPolicy([]byte(`{"forks":{"unshared_bytes":100000000}}`), actors.Caller{})
	must.OK(t, err)
	used := func(f *snapshot.Workspace) int64 {
		t.Helper()
		_, err := f.Capture(snapshot.CaptureOptions{Name: "now"})
		must.OK(t, err)
		_, err = f.Snapshots().WaitSealed(t.Context(), "now")
		must.OK(t, err)
		n, _ := f.Quota().Usage()
		return n
	}
	f, err := w.Forks().New(snapshot.ForkOptions{Name: "rewritten"})
	must.OK(t, err)
	a, err := forest.Lookup(f.Root(), "file")
	must.OK(t, err)
	write(a.ID, size)
	if n := used(f); n < size || n > size+size/10 {
		t.Errorf("a file of %d bytes that is written again counts %d", size, n)
	}
	if f, err = w.Forks().New(snapshot.ForkOptions{Name: "crafted"}); err != nil {
		t.Fatal(err)
	}
	// A small part of each chunk, in a file that is counted first.
	parts, whole := stores.Write(t, s, f.Root(), "parts", ""), stores.Write(t, s, f.Root(), "whole", "")
	write(whole, size)
	for off := int64(0); off < size; off += 16 << 10 {
		_, err = forest.CopyRange(whole, off, parts, off, 4096)
		must.OK(t, err)
	}
	if n := used(f); n < size {
		t.Errorf("%d bytes, a part of them in two files, count %d", size, n)
	}
	if f, err = w.Forks().New(snapshot.ForkOptions{Name: "outside"}); err != nil {
		t.Fatal(err)
	}
	must.OK(t, f.Quota().ChargeExport(60_000_000))
	if _, err := forest.Create(f.Root(), "x", live.NewNode{Mode: unix.S_IFREG | 0o644}); err != nil {
		t.Error(err)
	}
	if n, _ := f.Quota().Usage(); n < 60_000_000 || n > 61_000_000 {
		t.Errorf("an export of 60 MB counts %d", n)
	}
	if err := f.Quota().ChargeExport(60_000_000); !errors.Is(err, errs.Quota) {
		t.Errorf("an export beyond the limit: %v", err)
	}
	if err := w.Quota().ChargeExport(1 << 40); err != nil {
		t.Errorf("main is limited: %v", err)
	}
}

// TestWhatOthersHave: neither what a fork is told of its snapshots nor the work that
// is done for them tells whether content was in the store before.
func TestWhatOthersHave(t *testing.T) {
	s := stores.Open(t, t.TempDir())
	w, forest := s.Main(), s.Forest()
	content := bytes.Repeat([]byte("a secret of somebody else\n"), 100_000)
	put := func(w *snapshot.Workspace) int64 {
		t.Helper()
		a, err := forest.Create(w.Root(), "file", live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(t, err)
		_, err = forest.Write(a.ID, content, 0, false)
		must.OK(t, err)
		_, err = w.Capture(snapshot.CaptureOptions{Name: "v"})
		must.OK(t, err)
		info, err := w.Snapshots().WaitSealed(t.Context(), "v")
		must.OK(t, err)
		return info.UniqueBytes
	}
	var told []int64
	for i := range 3 { // the second and third put what the first has put
		f, err := w.Forks().New(snapshot.ForkOptions{Name: fmt.Sprint("f", i)})
		must.OK(t, err)
		told = append(told, put(f))
	}
	// Times of creation differ, and so do trees by some bytes.
	for _, n := range told[1:] {
		if d := n - told[0]; d > 200 || d < -200 || n < 1000 {
			t.Errorf("the forks are told of %v bytes", told)
			break
		}
	}
	before := s.Main().Status().StoredBytes
	if n := put(w); n > told[0]/2 {
		t.Errorf("main is told of %d bytes that it shares with forks, which are %d", n, told[0])
	}
	if grown := s.Main().Status().StoredBytes - before; grown > told[0]/2+4096 {
		t.Errorf("the same content took %d bytes more", grown)
	}
}

// TestOwnLimit: a fork has a limit of its own that its programs cannot change, that others do not
// have, that its own forks do not inherit and that does not go beyond the limit of all.
func TestOwnLimit(t *testing.T) {
	dir := t.TempDir()
	s := stores.Open(t, dir)
	owner := actors.Caller{ViaSocket: true}
	patch := func(w *snapshot.Workspace, patch string, by actors.Caller) error {
		_, err := w.PatchPolicy([]byte(patch), by)
		return err
	}
	made := func(name string) *snapshot.Workspace {
		t.Helper()
		f, err := s.Main().Forks().New(snapshot.ForkOptions{Name: name})
		must.OK(t, err)
		return f
	}
	write := func(w *snapshot.Workspace, name string, n int) error {
		t.Helper()
		_, err := s.Forest().Write(stores.Write(t, s, w.Root(), name, ""), bytes.Repeat([]byte("x"), n), 0, false)
		return err
	}
	f, g := made("f"), made("g")
	for what, err := range map[string]error{
		"before there is a limit": write(f, "a", 300_000),
		"the owner's limit":       patch(f, `{"unshared_bytes":500000}`, owner),
		"the same again":          patch(f, `{"unshared_bytes":500000,"interval_seconds":7}`, actors.Caller{}),
		"another fork":            write(g, "a", 900_000),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := write(f, "b", 300_000); !errors.Is(err, errs.Quota) {
		t.Errorf("beyond its limit: %v", err)
	}
	if err := patch(f, `{"unshared_bytes":0}`, actors.Caller{}); !errors.Is(err, errs.Protected) {
		t.Errorf("a program in it sets its limit: %v", err)
	}
	if err := patch(s.Main(), `{"unshared_bytes":1}`, owner); !errors.Is(err, errs.Invalid) {
		t.Errorf("main: %v", err)
	}
	inner, err := f.Forks().New(snapshot.ForkOptions{Name: "inner"})
	if err != nil || inner.Policy().UnsharedBytes != 0 {
		t.Errorf("a fork in it has %d, %v", inner.Policy().UnsharedBytes, err)
	}
	if err := write(inner, "d", 300_000); !errors.Is(err, errs.Quota) {
		t.Errorf("a fork in it, beyond its limit: %v", err)
	}
	must.OK(t, s.Close())
	s = stores.Open(t, dir)
	if f, err = s.Main().Forks().Named("f"); err != nil {
		t.Fatal(err)
	}
	if err := write(f, "c", 300_000); !errors.Is(err, errs.Quota) {
		t.Errorf("after it was opened again: %v", err)
	}
	if err := patch(s.Main(), `{"forks":{"unshared_bytes":400000}}`, owner); err != nil {
		t.Error(err)
	}
	if _, limit := f.Quota().Usage(); limit != 400_000 {
		t.Errorf("its limit is %d", limit)
	}
}
