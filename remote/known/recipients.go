package known

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
)

// recipients are the keys that each remote is encrypted to, by its URL, as they were when the
// remote was added or first used; none means that nothing there is encrypted. They are kept here
// because a service could otherwise switch encryption off, or add a key of its own.
type recipients struct {
	mu sync.Mutex
	by map[string][]string
}

// agree reports an error if a remote has other recipients than before.
func (r *recipients) agree(url string, found []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	found = slices.Compact(slices.Sorted(slices.Values(found)))
	was, known := r.by[url]
	if !known {
		if r.by == nil {
			r.by = map[string][]string{}
		}
		r.by[url] = found
		return nil
	}
	if slices.Equal(was, found) {
		return nil
	}
	return errs.New(errs.Perm, "%s is encrypted to %s now, and was to %s: its format object was changed there, and nothing is sent; "+
		"restore that object, or if you agree, use `amberfs remote remove` and `amberfs remote add`", url, keys(found), keys(was))
}

func keys(list []string) string { return cmp.Or(strings.Join(list, ", "), "nobody") }

// forget has the next use of a remote decide again.
func (r *recipients) forget(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, url)
}

func (r *recipients) MarshalJSON() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.Marshal(r.by)
}

func (r *recipients) UnmarshalJSON(raw []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.Unmarshal(raw, &r.by)
}
