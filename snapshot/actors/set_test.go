package actors

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestSet compares a set with a plain map, after a round through its object and a union.
func TestSet(t *testing.T) {
	names := []string{"a", "b/1", "b/2", Unknown}
	rnd := rand.New(rand.NewPCG(1, 2))
	model := map[uint64][]string{}
	sets := []*Set{{}, {}, {}}
	for range 5000 {
		ino, who := rnd.Uint64N(3000), names[rnd.IntN(len(names))]
		if rnd.IntN(10) == 0 {
			ino += 1 << 35
		}
		sets[rnd.IntN(3)].Add(ino, who)
		if !slices.Contains(model[ino], who) {
			model[ino] = append(model[ino], who)
		}
	}
	all := Union(sets...)
	got, err := Decode(all.Encode())
	must.OK(t, err)
	for ino := range uint64(3100) {
		for _, ino := range []uint64{ino, ino + 1<<35} {
			want := model[ino]
			slices.Sort(want)
			if !slices.Equal(got.ActorsOf(ino), want) || !slices.Equal(all.ActorsOf(ino), want) {
				t.Fatalf("inode %d was changed by %v, want %v", ino, got.ActorsOf(ino), want)
			}
			if got.ChangedByOthers(ino, "a") != (len(want) > 1 || len(want) == 1 && want[0] != "a") {
				t.Fatalf("inode %d: others than a: %v", ino, want)
			}
		}
	}
	if !slices.Equal(got.Actors(), names) {
		t.Errorf("actors %v", got.Actors())
	}
}

func TestSetOfMany(t *testing.T) {
	var s Set
	for ino := range uint64(100_000) {
		s.Add(1000+ino, "a")
	}
	if n := len(s.Encode()); n > 32<<10 || s.MemoryBytes() > 128<<10 {
		t.Errorf("100,000 files in a row take %d bytes, and %d of memory", n, s.MemoryBytes())
	}
	for i := range 2 * maxActors {
		s.AddWithoutInodes(fmt.Sprint(i))
	}
	if n := len(s.Actors()); n > maxActors+1 {
		t.Errorf("%d actors", n)
	}
	if _, err := Decode(s.Encode()); err != nil {
		t.Error(err)
	}
}

func TestMalformed(t *testing.T) {
	var s Set
	s.Add(7, "a")
	s.AddWithoutInodes("b")
	b := s.Encode()
	for i := range b {
		if _, err := Decode(b[:i]); !errors.Is(err, errs.Damaged) {
			t.Errorf("%d of %d bytes: %v", i, len(b), err)
		}
		for v := range 256 {
			c := slices.Clone(b)
			c[i] = byte(v)
			if s, err := Decode(c); err == nil {
				s.ActorsOf(7)
				s.Actors()
			}
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"claude/4f2a": true, "bash/4242": true, "uid:1000": true, "a.b-c_d": true,
		"": false, "/a": false, "a/": false, "a//b": false, "../x": false, "a b": false, "a\n": false, ":a": false,
	} {
		if err := Check(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if !IsOrBelow("a/b", "a") || !IsOrBelow("a", "a") || IsOrBelow("ab", "a") || IsOrBelow("a", "a/b") {
		t.Error("below")
	}
}

func FuzzDecode(f *testing.F) {
	var s Set
	s.Add(70, "a")
	s.AddWithoutInodes("b")
	f.Add(s.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Decode(b); err == nil {
			if _, err := Decode(s.Encode()); err != nil {
				t.Error(err)
			}
		}
	})
}
