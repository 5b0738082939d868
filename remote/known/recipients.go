package known

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
)

// A recipientStore has the recipients that each remote had when it was added or first used. They are the public age
// keys to which the values of the remote are encrypted. Without keys, values are not encrypted. The store remembers
// the keys, because the format of a remote is not authenticated: a service could remove keys, or add its own.
type recipientStore struct {
	mu    sync.Mutex
	byURL map[string][]string
}

// checkOrStore stores the recipients that were found at a URL, when it is called for the URL for the first time.
// Later it returns an error if other recipients were found.
func (r *recipientStore) checkOrStore(url string, found []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	found = slices.Compact(slices.Sorted(slices.Values(found)))
	before, known := r.byURL[url]
	if !known {
		if r.byURL == nil {
			r.byURL = map[string][]string{}
		}

		r.byURL[url] = found
		return nil
	}
	if slices.Equal(before, found) {
		return nil
	}

	return errs.New(errs.Perm, "%s is encrypted to %s now, and was to %s: its format object was changed there, and nothing is sent; "+
		"restore that object, or if you agree, use `amberfs remote remove` and `amberfs remote add`", url, joinKeys(found), joinKeys(before))
}

func joinKeys(list []string) string { return cmp.Or(strings.Join(list, ", "), "nobody") }

// forget removes the recipients of a remote: the next call of checkOrStore accepts any recipients.
func (r *recipientStore) forget(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byURL, url)
}

func (r *recipientStore) MarshalJSON() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.Marshal(r.byURL)
}

func (r *recipientStore) UnmarshalJSON(raw []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return json.Unmarshal(raw, &r.byURL)
}
