package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
	"github.com/amberfs/amberfs/tests/must"
)

// counted counts the requests that read refs.
type counted struct {
	*clocked
	refs atomic.Int64
}

func (c *counted) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if strings.HasPrefix(key, "ref/") {
		c.refs.Add(1)
	}
	return c.clocked.GetRange(ctx, key, off, n)
}

func (c *counted) Put(ctx context.Context, key string, data []byte, o backend.PutOptions) error {
	return c.clocked.Put(ctx, key, data, o)
}

// TestListing: after many pushes, a program reads all refs from the list. The refs that it finds are those on the
// remote, also if refs were changed, or if the list is damaged or missing.
func TestListing(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted=%v", encrypted), func(t *testing.T) {
			b := &counted{clocked: newClocked()}
			var o Options
			var recipients []string
			if encrypted {
				key, err := age.GenerateX25519Identity()
				must.OK(t, err)
				o.Identities, recipients = []age.Identity{key}, []string{key.Recipient().String()}
			}
			r := on(t, b, o)
			initRemote(t, r, recipients...)
			w := newWorld()
			const n = 100
			var want []string
			for i := range n {
				_, err := r.Push(t.Context(), w.push(fmt.Sprint("s", i), w.tree(files(uint64(i), 2)), nil))
				must.OK(t, err)
				want = append(want, fmt.Sprint("s", i))
			}
			must.OK(t, r.UpdateList(t.Context()))

			// look reads all refs as another program would, and compares each with its value on the remote. At most
			// the given number of refs may be read.
			look := func(what string, most int64) {
				t.Helper()
				b.refs.Store(0)
				other, got := on(t, b, o), []string(nil)
				must.OK(t, other.Refs(t.Context(), func(name string, ref *object.Ref, err error) error {
					must.OK(t, err)
					got = append(got, name)
					raw, err := b.Get(t.Context(), "ref/"+name)
					must.OK(t, err)
					if is, err := other.decodeRef(raw); err != nil || is.ID != ref.ID || is.Encrypted != ref.Encrypted ||
						!slices.Equal(is.Objects, ref.Objects) || !slices.Equal(is.Indexes, ref.Indexes) {
						t.Errorf("%s: %s is %+v, and the ref has %+v, %v", what, name, ref, is, err)
					}
					return nil
				}))
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%s: the snapshots are %v, want %v", what, got, want)
				}
				if reads := b.refs.Load(); reads > most {
					t.Errorf("%s: %d refs were read, want %d", what, reads, most)
				}
			}
			look("after many pushes", 0)
			p := w.push("s5", w.tree(files(1000, 2)), nil)
			p.Force = true
			_, err := r.Push(t.Context(), p)
			must.OK(t, err)
			look("one was replaced", 1)
			must.OK(t, r.Remove(t.Context(), "s7"))
			want = slices.DeleteFunc(want, func(name string) bool { return name == "s7" })
			look("one was removed", 2)
			collect(t, r)
			for _, damage := range []string{"", "x", "\x28\xb5\x2f\xfd"} {
				must.OK(t, b.Put(t.Context(), listingKey, []byte(damage), backend.PutOptions{}))
				look("the listing is damaged", n)
				look("after that", 0)
			}
			b.remove(listingKey)
			look("the listing is missing", n)
			look("after that", 0)
		})
	}
}
