package cas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/cas/vfs"
)

// metaStore is a store on a disk in memory, with what its metadata should be.
type metaStore struct {
	*Store
	t    *testing.T
	dir  string
	fsys *vfs.Mem
	want map[string]string // empty: deleted
}

func newMetaStore(t *testing.T) *metaStore {
	m := &metaStore{t: t, dir: t.TempDir(), fsys: vfs.NewMem(), want: map[string]string{}}
	m.open()
	return m
}

// open opens it with a new index, as if that was lost.
func (m *metaStore) open() {
	m.t.Helper()
	m.Store = openTest(m.t, m.dir, memOptions(m.t, m.fsys))
}

// kill leaves the store to itself, and takes its disk.
func (m *metaStore) kill() {
	m.fsys = m.fsys.CrashClone(1, rand.New(rand.NewPCG(0, 0)))
}

func (m *metaStore) set(key, value string) {
	m.t.Helper()
	commit(m.t, m.Store, MetaOp{Key: key, Value: []byte(value), Delete: value == ""})
	m.want[key] = value
}

func (m *metaStore) check() {
	m.t.Helper()
	for key, value := range m.want {
		wantMeta(m.t, m.Store, key, value)
	}
}

// some makes a history: set, changed, deleted, set again.
func (m *metaStore) some(rnd *rand.Rand, n int) {
	m.t.Helper()
	for i := range n {
		value := fmt.Sprint(i, " ", rnd.Uint64())
		if rnd.IntN(3) == 0 {
			value = ""
		}
		m.set(fmt.Sprint("k", rnd.IntN(n)), value)
	}
}

func (m *metaStore) metaFiles() (files []string) {
	for _, path := range packFiles(m.t, m.fsys, m.dir) {
		if filepath.Ext(path) == roleMeta.ext() {
			files = append(files, path)
		}
	}
	return files
}

func damages(t *testing.T, s *Store) (list []Damage) {
	t.Helper()
	if _, err := s.Verify(context.Background(), VerifyOptions{}, func(d Damage) { list = append(list, d) }); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestMetadataLostButForItsCopy: the index and the metadata packs are gone.
func TestMetadataLostButForItsCopy(t *testing.T) {
	m := newMetaStore(t)
	b := blob(1, 5000)
	put(t, m.Store, b)
	m.some(rand.New(rand.NewPCG(1, 1)), 40)
	closeTest(t, m.Store)
	for _, path := range m.metaFiles() {
		if err := m.fsys.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	o := memOptions(t, m.fsys)
	o.ReadOnly = true
	s := openTest(t, m.dir, o)
	if len(damages(t, s)) == 0 {
		t.Error("verify does not find that the packs have no metadata")
	}
	closeTest(t, s)

	m.open()
	m.check()
	wantObject(t, m.Store, b)
	verifyMended(t, m.Store)
	verifyClean(t, m.Store) // it was written anew
	if len(m.metaFiles()) != 1 {
		t.Errorf("metadata packs: %v", m.metaFiles())
	}
	m.set("k0", "")
	m.set("k1", "later")
	m.kill()
	m.open()
	m.check()
	verifyClean(t, m.Store)
}

// TestCommitsAfterTheCopy: what was committed since counts, deletions too.
func TestCommitsAfterTheCopy(t *testing.T) {
	for seed := range uint64(10) {
		m := newMetaStore(t)
		rnd := rand.New(rand.NewPCG(seed, 2))
		for range 1 + rnd.IntN(3) {
			m.some(rnd, 20)
			closeTest(t, m.Store)
			m.open()
		}
		m.some(rnd, 20)
		m.kill()
		m.open()
		m.check()
		verifyClean(t, m.Store)
	}
}

// TestDamagedMetadataHasACopy: the index is lost, and anything in the packs. What
// was copied comes back, at the latest with a repair.
func TestDamagedMetadataHasACopy(t *testing.T) {
	for seed := range uint64(30) {
		m := newMetaStore(t)
		rnd := rand.New(rand.NewPCG(seed, 3))
		m.some(rnd, 30)
		closeTest(t, m.Store)
		path := m.metaFiles()[0]
		i, err := m.fsys.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		n := 1 + rnd.IntN(600)
		at := rnd.Int64N(max(1, i.Size-int64(n)))
		change(t, m.fsys, path, at, func(b []byte) {
			for i := range b {
				b[i] ^= byte(1 + rnd.IntN(255))
			}
		}, n)
		if seed%2 == 0 {
			m.open()
			m.check()
			closeTest(t, m.Store)
		}
		if _, err := Repair(m.dir, memOptions(t, m.fsys)); err != nil {
			t.Fatal(err)
		}
		m.open()
		m.check()
		verifyClean(t, m.Store)
	}
}

// TestDamagedCopy: damage of the copy is found, and harms nothing.
func TestDamagedCopy(t *testing.T) {
	m := newMetaStore(t)
	m.some(rand.New(rand.NewPCG(4, 4)), 20)
	path := m.metaCopyPath()
	closeTest(t, m.Store)
	good, err := vfs.ReadFile(m.fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, spoil func(b []byte) []byte) {
		t.Helper()
		b := spoil(append([]byte(nil), good...))
		if b == nil {
			err = m.fsys.Remove(path)
		} else {
			err = vfs.WriteFile(m.fsys, path, b)
		}
		if err != nil {
			t.Fatal(err)
		}
		o := memOptions(t, m.fsys)
		o.ReadOnly = true
		s := openTest(t, m.dir, o)
		if list := damages(t, s); len(list) == 0 || list[0].Pack != metaCopyName {
			t.Errorf("%s: verify finds %v", what, list)
		}
		for key, value := range m.want {
			wantMeta(t, s, key, value)
		}
		closeTest(t, s)
	}
	for bit := 0; bit < 8*len(good); bit += 37 {
		try(fmt.Sprint("bit ", bit), func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b })
	}
	for n := 0; n < len(good); n += 64 {
		try(fmt.Sprint("length ", n), func(b []byte) []byte { return b[:n:n] })
	}
	try("longer", func(b []byte) []byte { return append(b, make([]byte, 64)...) })

	res, err := Repair(m.dir, memOptions(t, m.fsys))
	if err != nil || len(res.Damage) == 0 {
		t.Fatalf("repair: %+v, %v", res, err)
	}
	m.open()
	m.check()
	verifyClean(t, m.Store)
	closeTest(t, m.Store)

	try("missing", func([]byte) []byte { return nil })
	m.open() // makes it anew
	if verifyMended(t, m.Store) == 0 {
		t.Error("verify does not tell that the copy was missing")
	}
	verifyClean(t, m.Store)
	if _, err := m.fsys.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestCopyOfManyCommits: a store that is never closed has a copy, too.
func TestCopyOfManyCommits(t *testing.T) {
	m := newMetaStore(t)
	rnd := rand.New(rand.NewPCG(5, 5))
	for i := range 300 {
		b := make([]byte, 500)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		m.set(fmt.Sprint("k", i), string(b))
	}
	if _, err := m.fsys.Stat(m.metaCopyPath()); err != nil {
		t.Fatal(err)
	}
	m.kill()
	for _, path := range m.metaFiles() {
		if err := m.fsys.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	m.open()
	for i := range 100 {
		key := fmt.Sprint("k", i)
		wantMeta(t, m.Store, key, m.want[key])
	}
}

// TestNoCopyOfDamagedMetadata: a copy that is made while a record cannot be read
// must not count more than that, once it is mended.
func TestNoCopyOfDamagedMetadata(t *testing.T) {
	m := newMetaStore(t)
	m.set("a", "1")
	at := m.meta.pack.end
	m.set("b", "2")
	m.set("c", "3")
	path, file := m.metaCopyPath(), m.metaFiles()[0]
	m.kill()
	flip(t, m.fsys, file, at+20, 3)
	if err := m.fsys.Remove(path); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		m.open()
		commit(t, m.Store, MetaOp{Key: "d", Value: []byte("4")})
		closeTest(t, m.Store)
	}
	if _, err := m.fsys.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a copy was made: %v", err)
	}
	if _, err := Repair(m.dir, memOptions(t, m.fsys)); err != nil {
		t.Fatal(err)
	}
	m.open()
	m.check()
	verifyClean(t, m.Store)
}
