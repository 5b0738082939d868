package remote

import (
	"context"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/object"
	"github.com/amberfs/amberfs/tests/must"
)

// TestForget: Forget pushes these snapshots again: those with a forgotten record, and those that share an object
// with it. Then no record on the remote has the forgotten bytes.
func TestForget(t *testing.T) {
	everywhere(t, func(t *testing.T, url string) {
		r := openRemote(t, url, Options{})
		initRemote(t, r)
		w := newWorld()
		all := files(1, 20)
		secret, without := cas.Sum(all[3]), slices.Delete(slices.Clone(all), 3, 4)
		ids := map[string]cas.Hash{"old": w.tree(all), "new": w.tree(without), "shares": w.tree(append(files(2, 1), without...)), "other": w.tree(files(3, 5))}

		for _, name := range []string{"old", "shares", "other"} {
			p := w.push(name, ids[name], nil)
			if p.Base = "old"; name == "other" {
				p.Base = ""
			}
			_, err := r.Push(t.Context(), p)
			must.OK(t, err)
		}
		if found := records(t, r); !found[secret] {
			t.Fatal("the remote does not have the record")
		}

		done, err := r.Forget(t.Context(), ForgetOptions{
			Chunks: map[cas.Hash]bool{secret: true}, FormerIDs: map[string]bool{ids["old"].String(): true},
			Push: func(ctx context.Context, ref *object.Ref, base string) error {
				id := ids[ref.Name]
				if ref.Name == "old" {
					id = ids["new"]
				}
				p := w.push(ref.Name, id, nil)
				p.Force, p.SendAll, p.Base = true, base == "", base
				_, err := r.Push(ctx, p)
				return err
			},
		})
		must.OK(t, err)
		slices.Sort(done.Replaced)
		if !slices.Equal(done.Replaced, []string{"old", "shares"}) || len(done.Remaining) > 0 || (done.RemovedObjects > 0) == done.IsRegistry {
			t.Errorf("%+v", done)
		}

		w.check(t, r, "old", ids["new"])
		w.check(t, r, "shares", ids["shares"])
		w.check(t, r, "other", ids["other"])
		if found := records(t, r); found[secret] || len(found) == 0 {
			t.Errorf("%d records, with the forgotten one: %t", len(found), found[secret])
		}
	})
}

// records returns the hashes of all records on a remote.
func records(t *testing.T, r *Remote) map[cas.Hash]bool {
	t.Helper()
	all := make(map[cas.Hash]bool)
	unread, _, err := r.EachRecord(t.Context(), func(_ string, h cas.Hash, _ []byte) error {
		all[h] = true
		return nil
	})
	must.OK(t, err)
	if unread > 0 {
		t.Errorf("%d objects cannot be read", unread)
	}
	return all
}

// TestForgetLeavesHeldObjects: Forget keeps the objects of a removed snapshot that a hold protects. Without a record
// to forget, it removes no object.
func TestForgetLeavesHeldObjects(t *testing.T) {
	b := newClocked()
	r := on(t, b, Options{})
	initRemote(t, r)
	w := newWorld()
	for i, name := range []string{"held", "removed"} {
		id := w.tree(files(uint64(i+1), 3))
		_, err := r.Push(t.Context(), w.push(name, id, nil))
		must.OK(t, err)
		if name == "held" {
			must.OK(t, w.check(t, r, name, id).Hold(t.Context(), "reader"))
		}
		must.OK(t, r.Remove(t.Context(), name))
	}
	b.pass(maxMarkAge + 1)

	forget := func(chunks map[cas.Hash]bool, want int) {
		t.Helper()
		before := len(b.list("obj/"))
		done, err := r.Forget(t.Context(), ForgetOptions{Chunks: chunks})
		must.OK(t, err)
		if after := len(b.list("obj/")); done.RemovedObjects != want || before-after != want {
			t.Errorf("%d of %d objects were removed, want %d", before-after, before, want)
		}
	}
	all := len(b.list("obj/"))
	forget(nil, 0)
	forget(map[cas.Hash]bool{cas.Sum([]byte("secret")): true}, all/2)
}
