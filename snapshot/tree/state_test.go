package tree

import (
	"errors"
	"maps"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestTableAgainstMap changes a table over several epochs and looks at all
// versions afterwards, in memory and cold.
func TestTableAgainstMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newTestFS()
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 4))
		limit := rapid.SampledFrom([]uint64{60, 5000, 1 << 20, MaxIno}).Draw(rt, "limit")
		model := map[uint64]uint32{RootIno: 0}
		type version struct {
			s *State
			m map[uint64]uint32
		}
		var old []version
		inos := []uint64{RootIno}
		for range 4 {
			for range r.IntN(200) {
				ino := 2 + r.Uint64N(limit-2)
				if r.IntN(2) == 0 {
					ino = inos[r.IntN(len(inos))]
				}
				uid := r.Uint32N(9)
				_, there := model[ino]
				switch r.IntN(3) {
				case 0:
					check(f.s.Put(f.src, f.epoch, &Inode{Ino: ino, Nlink: 1, Links: []Link{{RootIno, "x"}}, Mode: unix.S_IFREG, UID: uid}))
					model[ino] = uid
					inos = append(inos, ino)
				case 1:
					n, err := f.s.Own(f.src, f.epoch, ino)
					if there != (err == nil) || !there && !errors.Is(err, ErrNoInode) {
						rt.Fatalf("Own(%d): %v", ino, err)
					}
					if there {
						n.UID = uid
						model[ino] = uid
					}
				case 2:
					if err := f.s.Delete(f.src, f.epoch, ino); there != (err == nil) || !there && !errors.Is(err, ErrNoInode) {
						rt.Fatalf("Delete(%d): %v", ino, err)
					}
					delete(model, ino)
				}
			}
			v := version{f.freeze(), maps.Clone(model)}
			if r.IntN(2) == 0 {
				f.seal(t, v.s)
			}
			old = append(old, v)
		}
		for _, v := range old {
			old = append(old, version{f.load(t, f.source(), f.seal(t, v.s)), v.m})
		}
		for i, v := range old {
			if v.s.Inodes != int64(len(v.m)) {
				rt.Fatalf("version %d: %d inodes, want %d", i, v.s.Inodes, len(v.m))
			}
			for _, ino := range inos {
				n, err := v.s.Get(f.src, ino)
				uid, ok := v.m[ino]
				if ok && (err != nil || n.UID != uid || n.Ino != ino) || !ok && !errors.Is(err, ErrNoInode) {
					rt.Fatalf("version %d: Get(%d) = %v, %v, want %d, %v", i, ino, n, err, uid, ok)
				}
			}
		}
	})
}

func TestTableShape(t *testing.T) {
	f := newTestFS()
	root := *f.own(RootIno)
	fresh := New(1, &root)
	for _, ino := range []uint64{MaxIno, 70, 5000, 64, 2} {
		check(f.s.Put(f.src, f.epoch, &Inode{Ino: ino, Mode: unix.S_IFREG}))
	}
	f.freeze()
	for _, ino := range []uint64{2, 5000, MaxIno, 64, 70} {
		check(f.s.Delete(f.src, f.epoch, ino))
	}
	if a, b := f.seal(t, f.freeze()), f.seal(t, fresh); a != b {
		t.Errorf("ids %s and %s of equal tables", a, b)
	}
	if _, err := f.s.Get(f.src, MaxIno+1); !errors.Is(err, ErrNoInode) {
		t.Errorf("Get above MaxIno: %v", err)
	}
	if err := f.s.Put(f.src, f.epoch, &Inode{Ino: MaxIno + 1}); err == nil {
		t.Error("Put above MaxIno succeeded")
	}
}

// TestFrozen checks that no later changes show through an inode that was
// handed out.
func TestFrozen(t *testing.T) {
	f := newTestFS()
	d := f.create(RootIno, "d", unix.S_IFDIR|0o755)
	for i := range 200 {
		f.create(d, testName(i), unix.S_IFREG|0o644)
	}
	e, _ := f.lookup(d, testName(0))
	f.write(e.Ino, 0, "first")
	s := f.freeze()
	dir, file := must(s.Get(f.src, d)), must(s.Get(f.src, e.Ino))
	for _, put := range []bool{false, true} {
		if put { // an inode of another state is copied, not adopted
			check(f.s.Put(f.src, f.epoch, file))
			check(f.s.Put(f.src, f.epoch, dir))
		}
		f.write(e.Ino, 0, "other")
		f.link(e.Ino, RootIno, "second name "+map[bool]string{true: "x"}[put])
		f.own(e.Ino).Mode = unix.S_IFREG
		f.unlink(d, testName(7+map[bool]int{true: 1}[put]))
		if file.Mode != unix.S_IFREG|0o644 || len(file.Links) != 1 || readAll(t, f.src, file) != "first" || dir.Dir.Len() != 200 {
			t.Fatalf("a frozen inode changed: %+v, %d entries", file, dir.Dir.Len())
		}
		if _, ok, _ := dir.Dir.Lookup(f.src, testName(7)); !ok {
			t.Fatal("a frozen directory lost an entry")
		}
	}
}

func TestPaths(t *testing.T) {
	f := newTestFS()
	a := f.create(RootIno, "a", unix.S_IFDIR|0o755)
	b := f.create(a, "b", unix.S_IFDIR|0o755)
	file := f.create(b, "file", unix.S_IFREG|0o644)
	f.create(a, "link", unix.S_IFLNK|0o777)
	f.link(file, RootIno, "a.file")
	f.link(file, a, "c")
	for path, want := range map[string]error{
		"": nil, ".": nil, "a/b/file": nil, "a/link": nil, "a.file": nil,
		"a/x": ErrNotExist, "x/y": ErrNotExist, "a/link/x": ErrSymlink, "a/b/file/x": ErrNotDir,
		"/a": ErrBadPath, "a/": ErrBadPath, "a//b": ErrBadPath, "a/../a": ErrBadPath, "./a": ErrBadPath, "..": ErrBadPath,
	} {
		if _, err := f.s.Resolve(f.src, path); !errors.Is(err, want) {
			t.Errorf("Resolve(%q): %v, want %v", path, err, want)
		}
	}
	p := must(ParsePath("a/b/file"))
	if p.String() != "a/b/file" || p.Len() != 8 || p.Dir.String() != "a/b" || p.tail(5) != "/file" {
		t.Errorf("a path reads %q, %q, %q", p, p.Dir, p.tail(5))
	}
	for p = nil; ; {
		next, err := p.Child("name")
		if errors.Is(err, ErrTooDeep) {
			break
		}
		p = must(next, err)
	}
	if p.Len() != MaxDepth*5-1 || len(p.Short()) != 4095 {
		t.Errorf("the deepest path has %d bytes, %d of them shown", p.Len(), len(p.Short()))
	}
}
