package manifest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

const dir = "/store"

// long reports whether the tests are to look at everything.
func long() bool { return os.Getenv("AMBERFS_TEST_LONG") != "" }

func newDisk(t testing.TB) *vfstest.Mem {
	t.Helper()
	fsys := vfstest.NewMem()
	must.OK(t, fsys.MkdirAll(dir, 0o700))
	return fsys
}

func options() Options {
	return Options{Logger: slog.New(slog.DiscardHandler), CheckRoom: func(int64) error { return nil }}
}

func open(t testing.TB, fsys vfs.FS, o Options) *Manifest {
	t.Helper()
	m, err := Open(fsys, dir, o)
	must.OK(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func create(t testing.TB, fsys vfs.FS) *Manifest {
	o := options()
	o.AllowNew = true
	return open(t, fsys, o)
}

func commit(t testing.TB, m *Manifest, ops ...Op) {
	t.Helper()
	must.OK(t, m.Commit(ops...))
}

func all(t testing.TB, m *Manifest) map[string]string {
	t.Helper()
	got := map[string]string{}
	last := ""
	must.OK(t, m.Scan("", func(k string, v []byte) error {
		if k <= last {
			t.Errorf("key %q after %q", k, last)
		}
		last, got[k] = k, string(v)
		return nil
	}))
	return got
}

func want(t testing.TB, m *Manifest, entries map[string]string) {
	t.Helper()
	if got := all(t, m); !maps.Equal(got, entries) {
		t.Fatalf("%d entries are there, want %d", len(got), len(entries))
	}
}

type damage struct{ File, Reason string }

func verify(m *Manifest) (found []damage, err error) {
	_, err = m.Verify(func(file, reason string) { found = append(found, damage{file, reason}) })
	return found, err
}

func clean(t testing.TB, m *Manifest) {
	t.Helper()
	if found, err := verify(m); err != nil || len(found) > 0 {
		t.Fatalf("verify: %+v, %v", found, err)
	}
}

// fill makes commits until the log was rewritten and has some more.
func fill(t testing.TB, m *Manifest) map[string]string {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		v := make([]byte, 5000)
		for j := range v {
			v[j] = byte(rnd.Uint32())
		}
		commit(t, m, Op{Key: fmt.Sprint("big", i%20), Value: v}, Op{Key: fmt.Sprint("k", i), Value: fmt.Append(nil, i)},
			Op{Key: fmt.Sprint("k", i-10), Delete: true})
	}
	return all(t, m)
}

func TestCommitsLast(t *testing.T) {
	fsys := newDisk(t)
	m := create(t, fsys)
	entries := fill(t, m)
	if len(entries) != 30 {
		t.Fatalf("%d entries", len(entries))
	}
	if v, ok, err := m.Get("k59"); err != nil || !ok || string(v) != "59" {
		t.Error(string(v), ok)
	}
	if _, ok, _ := m.Get("k1"); ok {
		t.Error("a deleted key is there")
	}
	clean(t, m)
	for range 3 {
		m = open(t, fsys, options())
		want(t, m, entries)
		clean(t, m)
	}
	o := options()
	o.ReadOnly = true
	want(t, open(t, fsys, o), entries)
}

// TestSizeIsBounded: the log is at most twice what is in force, and a bit.
func TestSizeIsBounded(t *testing.T) {
	fsys := newDisk(t)
	m := create(t, fsys)
	for i := range 2000 {
		commit(t, m, Op{Key: "a", Value: fmt.Append(nil, i)})
	}
	for i := range 400 {
		v := make([]byte, 3000)
		rand.NewChaCha8([32]byte{byte(i)}).Read(v)
		commit(t, m, Op{Key: "b", Value: v})
		for _, name := range copyNames {
			if fi, err := fsys.Stat(m.path(name)); err != nil || fi.Size > 2*minRewriteBytes {
				t.Fatalf("%s has %d bytes, %v", name, fi.Size, err)
			}
		}
	}
	want(t, open(t, fsys, options()), all(t, m))
}

func change(t testing.TB, fsys vfs.FS, name string, fn func(b []byte) []byte) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, dir+"/"+name)
	must.OK(t, err)
	must.OK(t, vfs.WriteFile(fsys, dir+"/"+name, fn(b)))
}

// small makes a manifest of some records, and returns all states that it had.
func small(t testing.TB) (*vfstest.Mem, []map[string]string) {
	fsys := newDisk(t)
	m := create(t, fsys)
	states := []map[string]string{{}}
	for i := range 8 {
		commit(t, m, Op{Key: fmt.Sprint("k", i), Value: []byte(strings.Repeat(fmt.Sprint(i), 40))}, Op{Key: "last", Value: fmt.Append(nil, i)})
		states = append(states, all(t, m))
	}
	must.OK(t, m.Close())
	return fsys, states
}

// readOnly opens what was small without changing it, and returns what Verify finds.
func readOnly(t testing.TB, fsys vfs.FS) (*Manifest, []damage) {
	t.Helper()
	o := options()
	o.ReadOnly = true
	m := open(t, fsys, o)
	found, err := verify(m)
	must.OK(t, err)
	return m, found
}

// TestOneCopyDamaged: whatever happens to one copy, nothing is lost. Verify names the
// copy, but for its last record, which a kill may have torn.
func TestOneCopyDamaged(t *testing.T) {
	fsys, states := small(t)
	ends := recordEnds(t, fsys)
	size, last := ends[len(ends)-1], ends[len(ends)-2]
	step := 11
	if long() {
		step = 1
	}
	for _, name := range copyNames {
		try := func(what string, told bool, hurt func(fsys vfs.FS)) {
			t.Helper()
			c := fsys.CrashClone(1, rand.New(rand.NewPCG(1, 1)))
			hurt(c)
			m, found := readOnly(t, c)
			want(t, m, states[len(states)-1])
			if told != (len(found) == 1) || told && found[0].File != name {
				t.Fatalf("%s %s: verify says %+v", name, what, found)
			}
			m = open(t, c, options())
			want(t, m, states[len(states)-1])
			clean(t, m)
			commit(t, m, Op{Key: "more", Value: []byte("x")})
			want(t, open(t, c, options()), all(t, m))
		}
		try("removed", true, func(fsys vfs.FS) {
			must.OK(t, fsys.Remove(dir+"/"+name))
		})
		for off := 0; off < size; off += step {
			try(fmt.Sprint("flipped at ", off), off < last, func(fsys vfs.FS) {
				change(t, fsys, name, func(b []byte) []byte { b[off] ^= 1 << (off % 8); return b })
			})
		}
		try("emptied", true, func(fsys vfs.FS) { change(t, fsys, name, func(b []byte) []byte { return nil }) })
		try("cut", true, func(fsys vfs.FS) { change(t, fsys, name, func(b []byte) []byte { return b[:len(b)/2] }) })
		try("zeroed", true, func(fsys vfs.FS) { change(t, fsys, name, func(b []byte) []byte { clear(b[:200]); return b }) })
	}
}

// recordEnds returns where the records of a copy end.
func recordEnds(t testing.TB, fsys vfs.FS) (ends []int) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, dir+"/"+copyNames[0])
	must.OK(t, err)
	c := &copyScan{size: int64(len(b))}
	if err := c.findRecords(bytes.NewReader(b), 0); err != nil || c.end != c.size {
		t.Fatal(c, err)
	}
	for _, at := range c.records {
		ends = append(ends, int(at.off+at.n))
	}
	return ends
}

// TestBothCopiesDamaged: damage in two places takes nothing away. Where both copies lack the
// same commit, what lies behind it is not cut off: Open fails, and a salvage keeps it. If
// neither has a sound record at the beginning, Open fails.
func TestBothCopiesDamaged(t *testing.T) {
	fsys, states := small(t)
	ends := recordEnds(t, fsys)
	for i := range ends {
		for j := range ends {
			c := fsys.CrashClone(1, rand.New(rand.NewPCG(1, 1)))
			for n, end := range []int{ends[i], ends[j]} {
				change(t, c, copyNames[n], func(b []byte) []byte { b[end-1] ^= 4; return b })
			}
			last := len(ends) - 1
			switch {
			case i == 0 && j == 0:
				if _, err := Open(c, dir, options()); !errors.Is(err, ErrLost) {
					t.Errorf("without a sound record: %v", err)
				}
			case i == j && i < last:
				bothLack(t, c, states, i)
			default:
				kept := states[last]
				if i == last && j == last { // as a power cut leaves it
					kept = states[last-1]
				}
				m, found := readOnly(t, c)
				want(t, m, kept)
				if len(found) == 0 && min(i, j) < last-1 {
					t.Errorf("records %d and %d damaged: verify says nothing", i, j)
				}
				m = open(t, c, options())
				want(t, m, kept)
				clean(t, m)
			}
		}
	}
	for _, name := range copyNames {
		must.OK(t, fsys.Remove(dir+"/"+name))
	}
	if _, err := Open(fsys, dir, options()); !errors.Is(err, ErrLost) {
		t.Errorf("without files: %v", err)
	}
}

// bothLack opens a manifest that has lost a commit, and others behind it not.
func bothLack(t *testing.T, c *vfstest.Mem, states []map[string]string, lost int) {
	t.Helper()
	if _, err := Open(c, dir, options()); !errors.Is(err, errs.Damaged) || !strings.Contains(err.Error(), "verify --repair") {
		t.Fatalf("without commit %d: %v", lost, err)
	}
	o := options()
	o.Salvage, o.ReadOnly = true, true
	want(t, open(t, c, o), states[lost-1])
	o.ReadOnly = false
	m := open(t, c, o)
	want(t, m, states[lost-1])
	clean(t, m)
	commit(t, m, Op{Key: "more", Value: []byte("x")})
	want(t, open(t, c, options()), all(t, m))
	aside, err := c.ReadDir(dir + "/quarantine")
	if err != nil || len(aside) != 2 {
		t.Fatalf("in quarantine: %v, %v", aside, err)
	}
	for _, i := range aside {
		b, err := vfs.ReadFile(c, dir+"/quarantine/"+i.Name)
		r := &copyScan{size: int64(len(b))}
		if err = errors.Join(err, r.findRecords(bytes.NewReader(b), 0)); err != nil || len(r.records) != len(states)-1 {
			t.Errorf("%s has %d of %d records: %v", i.Name, len(r.records), len(states)-1, err)
		}
	}
}

// TestUnreadableSector: what the disk does not give at the end of both copies is no torn end.
func TestUnreadableSector(t *testing.T) {
	fsys, states := small(t)
	ends := recordEnds(t, fsys)
	at := int64(ends[len(ends)-1] - 3)
	one, both := unreadable{fsys, copyNames[:1], at}, unreadable{fsys, copyNames[:], at}
	if _, err := Open(both, dir, options()); !errors.Is(err, errs.Damaged) {
		t.Errorf("both copies: %v", err)
	}
	want(t, open(t, one, options()), states[len(states)-1])
}

// unreadable is a disk that fails at a byte of some files.
type unreadable struct {
	vfs.FS
	names []string
	at    int64
}

func (u unreadable) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := u.FS.OpenFile(name, flag, perm)
	if err == nil && slices.Contains(u.names, strings.TrimPrefix(name, dir+"/")) {
		f = unreadableFile{f, u.at}
	}
	return f, err
}

type unreadableFile struct {
	vfs.File
	at int64
}

func (f unreadableFile) ReadAt(p []byte, off int64) (int, error) {
	if off <= f.at && f.at < off+int64(len(p)) {
		n, _ := f.File.ReadAt(p[:f.at-off], off)
		return n, syscall.EIO
	}
	return f.File.ReadAt(p, off)
}

// TestKillInACommit: one copy may have the last record and the other not, or a part.
func TestKillInACommit(t *testing.T) {
	fsys, states := small(t)
	ends := recordEnds(t, fsys)
	for _, name := range copyNames {
		for cut := ends[len(ends)-2]; cut < ends[len(ends)-1]; cut += 5 {
			fsys := fsys.CrashClone(1, rand.New(rand.NewPCG(1, 1)))
			change(t, fsys, name, func(b []byte) []byte { return b[:cut] })
			if _, found := readOnly(t, fsys); len(found) > 0 {
				t.Fatalf("a kill is reported as %+v", found)
			}
			m := open(t, fsys, options())
			want(t, m, states[len(states)-1])
			clean(t, m)
		}
	}
}

func TestOtherVersionIsRefused(t *testing.T) {
	fsys, _ := small(t)
	change(t, fsys, copyNames[1], func(b []byte) []byte {
		b[4] = 99
		sum(b)
		return b
	})
	if _, err := Open(fsys, dir, options()); !errors.Is(err, errs.Format) || !strings.Contains(err.Error(), "99") {
		t.Errorf("open: %v", err)
	}
}

// TestPowerCut cuts the power at random instants of the disk's life.
func TestPowerCut(t *testing.T) {
	seeds := uint64(30)
	if long() {
		seeds = 1000
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 3))
		fsys := newDisk(t)
		m := create(t, fsys)
		states := []map[string]string{{}}
		for i := range 1 + rnd.IntN(40) {
			v := make([]byte, rnd.IntN(8000))
			rand.NewChaCha8([32]byte{byte(i)}).Read(v)
			commit(t, m, Op{Key: fmt.Sprint(rnd.IntN(6)), Value: v}, Op{Key: fmt.Sprint(rnd.IntN(6), "x"), Delete: true}, Op{Key: "n", Value: fmt.Append(nil, i)})
			states = append(states, all(t, m))
		}
		// A commit that is not synced when the power goes.
		unacknowledged := []Op{{Key: "n", Value: []byte("unacknowledged")}}
		_, err := m.writeRecord(m.openCopies(), m.state.seq+1, func(w io.Writer) error { return encode(w, m.encoder, 1, slices.Values(unacknowledged)) })
		must.OK(t, err)
		after := maps.Clone(states[len(states)-1])
		after["n"] = "unacknowledged"
		for _, keep := range []float64{0, 0.3, 0.7, 1} {
			c := fsys.CrashClone(keep, rnd)
			if _, found := readOnly(t, c); len(found) > 0 {
				t.Fatalf("seed %d: a power cut is reported as %+v", seed, found)
			}
			m := open(t, c, options())
			if got := all(t, m); !maps.Equal(got, states[len(states)-1]) && !maps.Equal(got, after) {
				t.Fatalf("seed %d: what is left is neither the state before the last commit nor that after", seed)
			}
			clean(t, m)
		}
	}
}

// TestEveryDiskOperationMayFail: what was committed is there, whatever fails.
func TestEveryDiskOperationMayFail(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for i := int64(0); ; i += 1 + i/20 {
			fsys := newDisk(t)
			faulty := vfstest.FailAt(fsys, i, errno)
			o := options()
			o.AllowNew = true
			acked, tried := map[string]string{}, map[string]string{}
			m, err := Open(faulty, dir, o)
			for n := 0; err == nil && n < 40; n++ {
				v := make([]byte, 9000)
				rand.NewChaCha8([32]byte{byte(n)}).Read(v)
				tried = maps.Clone(acked)
				tried[fmt.Sprint(n%4)] = string(v)
				if err = m.Commit(Op{Key: fmt.Sprint(n % 4), Value: v}); err == nil {
					acked = tried
				}
			}
			if err != nil && !errors.Is(err, errno) {
				t.Fatalf("operation %d: %v hides %v", i, err, errno)
			}
			if m != nil {
				_ = m.Close()
			}
			m = open(t, fsys, o)
			if got := all(t, m); !maps.Equal(got, acked) && !maps.Equal(got, tried) {
				t.Fatalf("operation %d: what was committed is not there", i)
			}
			clean(t, m)
			if !faulty.Failed() {
				break
			}
		}
	}
}

// TestNoRoom: a full disk refuses commits and keeps what exists; a copy that cannot
// be created again is made when there is room.
func TestNoRoom(t *testing.T) {
	fsys, states := small(t)
	last := states[len(states)-1]
	full := true
	o := options()
	o.CheckRoom = func(int64) error {
		if full {
			return errs.NoSpace
		}
		return nil
	}
	must.OK(t, fsys.Remove(dir+"/"+copyNames[0]))
	m := open(t, fsys, o)
	want(t, m, last)
	if err := m.Commit(Op{Key: "x", Value: []byte("y")}); !errors.Is(err, errs.NoSpace) {
		t.Errorf("commit: %v", err)
	}
	if found, err := verify(m); err != nil || len(found) == 0 {
		t.Errorf("the missing copy is not told: %v", err)
	}
	full = false
	commit(t, m, Op{Key: "x", Value: []byte("y")})
	clean(t, m)
}

func TestLimits(t *testing.T) {
	m := create(t, newDisk(t))
	if err := m.Commit(Op{Key: "k", Value: make([]byte, maxBytes)}); err == nil {
		t.Error("a commit over the limit was taken")
	}
	want(t, m, map[string]string{})
}

// TestMemory: what is written needs memory for the compressed entries, which stay, and a few blocks.
func TestMemory(t *testing.T) {
	o := options()
	o.AllowNew = true
	m, err := Open(vfs.OS, t.TempDir(), o)
	must.OK(t, err)
	defer m.Close()
	ops := make([]Op, 8)
	noise := rand.NewChaCha8([32]byte{3})
	for i := range ops {
		ops[i] = Op{Key: fmt.Sprint(i), Value: make([]byte, MaxValue)}
		_, _ = noise.Read(ops[i].Value)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	commit(t, m, ops...) // the log has doubled
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20+32<<20 {
		t.Errorf("%d MiB to write 32", n>>20)
	}
}

// TestWhatFitsIsRead: up to its limits, what is written can be read. A manifest of more bytes
// than a file that is read whole may have is one, and so is one that is full.
func TestWhatFitsIsRead(t *testing.T) {
	tmp := t.TempDir()
	o := options()
	o.AllowNew = true
	m, err := Open(vfs.OS, tmp, o)
	must.OK(t, err)
	noise := rand.NewChaCha8([32]byte{1})
	for i := range 34 {
		v := make([]byte, MaxValue)
		_, _ = noise.Read(v)
		commit(t, m, Op{Key: fmt.Sprint("k", i), Value: v})
	}
	entries := all(t, m)
	must.OK(t, m.Close())
	m, err = Open(vfs.OS, tmp, options())
	must.OK(t, err)
	defer m.Close()
	want(t, m, entries)
	clean(t, m)
}

// TestFileLimit: a copy never gets larger than one that is read.
func TestFileLimit(t *testing.T) {
	defer func(n int64) { maxFileSize = n }(maxFileSize)
	maxFileSize = 64 << 10
	fsys := newDisk(t)
	m := create(t, fsys)
	v := make([]byte, 7000)
	noise := rand.NewChaCha8([32]byte{2})
	n := 0
	for ; n < 100; n++ {
		_, _ = noise.Read(v)
		if err := m.Commit(Op{Key: fmt.Sprint(n), Value: bytes.Clone(v)}); err != nil {
			if !errors.Is(err, errTooMuch) {
				t.Fatal(err)
			}
			break
		}
	}
	if n < 5 || n == 100 {
		t.Fatalf("%d commits", n)
	}
	want(t, open(t, fsys, options()), all(t, m))
}

// As many snapshots as there may be between two checkpoints fit into one commit.
func TestLargeCommit(t *testing.T) {
	fsys := newDisk(t)
	m := create(t, fsys)
	ops := make([]Op, 100_000)
	for i := range ops {
		ops[i] = Op{Key: fmt.Sprintf("snapshot/%06d", i), Value: bytes.Repeat([]byte{byte(i)}, 450)}
	}
	must.OK(t, m.Commit(ops...))
	must.OK(t, m.Close())
	n := 0
	if err := open(t, fsys, options()).Scan("snapshot/", func(string, []byte) error { n++; return nil }); err != nil || n != len(ops) {
		t.Errorf("%d of %d entries: %v", n, len(ops), err)
	}
}

// Entries that go make room for those that come, however many they are.
func TestDeletesAreNoAdditions(t *testing.T) {
	if !long() {
		defer func(n int) { maxEntries = n }(maxEntries)
		maxEntries = 20_000
	}
	fsys := newDisk(t)
	m := create(t, fsys)
	ops := make([]Op, 0, maxEntries)
	for i := range maxEntries {
		ops = append(ops, Op{Key: fmt.Sprintf("snapshot/%06x", i), Value: []byte("v")})
	}
	commit(t, m, ops...)
	if err := m.Commit(Op{Key: "one more"}); err == nil {
		t.Error("there is no limit")
	}
	gone := maxEntries * 4 / 7
	next := []Op{{Key: "one more", Value: []byte("v")}}
	for _, op := range ops[:gone] {
		next = append(next, Op{Key: op.Key, Delete: true})
	}
	commit(t, m, next...)
	commit(t, m, Op{Key: "another", Value: []byte("v")})
	must.OK(t, m.Close())
	if n := len(all(t, open(t, fsys, options()))); n != maxEntries-gone+2 {
		t.Errorf("%d entries", n)
	}
}

func FuzzOps(f *testing.F) {
	write := func(ops []Op) []byte {
		var b bytes.Buffer
		_ = writeOps(&b, len(ops), slices.Values(ops))
		return b.Bytes()
	}
	read := func(b []byte) (ops []Op, err error) {
		err = readOps(bufio.NewReader(bytes.NewReader(b)), func(op Op) error { ops = append(ops, op); return nil })
		return ops, err
	}
	f.Add(write([]Op{{Key: "key", Value: []byte("value")}, {Key: "gone", Delete: true}}))
	f.Add(write(nil))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		ops, err := read(b)
		if err != nil {
			return
		}
		again, err := read(write(ops))
		if err != nil || !slices.EqualFunc(ops, again, func(a, b Op) bool {
			return a.Key == b.Key && a.Delete == b.Delete && bytes.Equal(a.Value, b.Value)
		}) {
			t.Fatalf("%v does not survive: %v", ops, err)
		}
	})
}

// FuzzScan: whatever is in the files, reading ends, and what it finds is within them.
func FuzzScan(f *testing.F) {
	fsys, _ := small(f)
	whole, err := vfs.ReadFile(fsys, dir+"/"+copyNames[0])
	must.OK(f, err)
	f.Add(whole)
	f.Add(whole[:len(whole)-20])
	f.Add(whole[headerSize:])
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &copyScan{size: int64(len(b))}
		if err := c.findRecords(bytes.NewReader(b), 0); err == nil && (c.end > c.size || c.baseLen > c.end) {
			t.Fatalf("it ends at %d of %d", c.end, c.size)
		}
	})
}

// sum gives a changed header its checksum.
func sum(b []byte) { binary.LittleEndian.PutUint32(b[24:], crc32.Checksum(b[:24], crcTable)) }
