package remote

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/amberfs/amberfs/remote/backend"
)

// On a remote with entries, the list and the entries give all refs without a look at each name:
//
//	push   writes an entry with its nonce and name before its ref, which it writes less than
//	       maxMarkAge later.
//	rm     writes an entry before it deletes the ref, and afterwards that it was deleted.
//	look   reads the entries, then the newest list, then the refs of the names of the entries.
//	       It takes the others from the list. It may write a list of the next number, if no other
//	       look was faster: the list names the entries that it takes account of.
//	tidy   deletes entries that the newest list names, and older lists.
//
// A look misses no ref that was written before it began. Its entry was there when the entries were
// read, or had been deleted. If it was there, the ref was read; if it was deleted, a list that
// named it was the newest then, and each later list was made from the one before it.
//
// An entry is taken account of only when the push's ref was read, when the removal had ended before the
// entries were read, or when the entry is older than grace. What an older program, a person or a request that was late did without an entry is seen by the next look that
// compares sums: a verification, or a collection that removes objects.

const (
	entryPrefix  = "new/"
	removalMark  = "rm-"
	numberPrefix = listingKey + "-"
)

// A refEntry says that a ref changes.
type refEntry struct {
	key, nonce, name string
	removed          bool
	at               time.Time
}

// errListGone: a list was replaced between the look at its key and its read.
var errListGone = errors.New("the list was replaced")

func listKey(number int) string { return fmt.Sprintf("%s%012d", numberPrefix, number) }

// listNumber returns the number of a list, 0 of another key.
func listNumber(key string) int {
	digits, ok := strings.CutPrefix(key, numberPrefix)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || listKey(n) != key {
		return 0
	}
	return n
}

// writeEntry says that a push with a nonce changes the ref of a name.
func (r *Remote) writeEntry(ctx context.Context, f *Format, nonce, name string) error {
	if !f.Entries {
		return nil
	}
	return r.b.Put(ctx, entryPrefix+nonce+"."+name, nil, backend.PutOptions{})
}

// removeRef deletes a ref, between the two writes of its entry.
func (r *Remote) removeRef(ctx context.Context, f *Format, name string) error {
	if !f.Entries {
		return r.b.Delete(ctx, "ref/"+name)
	}
	key := entryPrefix + removalMark + uuid.NewString() + "." + name
	if err := r.b.Put(ctx, key, nil, backend.PutOptions{}); err != nil {
		return err
	}
	if err := r.b.Delete(ctx, "ref/"+name); err != nil {
		return err
	}
	return r.b.Put(ctx, key, []byte("removed"), backend.PutOptions{})
}

func (r *Remote) newestList() int {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	return r.pushed.newest
}

func (r *Remote) readEntries(ctx context.Context) (out []refEntry, err error) {
	err = r.b.List(ctx, entryPrefix, func(i backend.Info) error {
		nonce, _ := strings.CutPrefix(i.Key[len(entryPrefix):], removalMark)
		nonce, name, _ := strings.Cut(nonce, ".")
		if uuid.Validate(nonce) == nil {
			out = append(out, refEntry{i.Key, nonce, name, i.Size > 0, i.Modified})
		}
		return nil
	})
	return out, err
}

// readNumbered reads the newest list. It is not usable if there is none, or if it is damaged.
func (r *Remote) readNumbered(ctx context.Context, v *view) (usable bool, err error) {
	if v.number == 0 {
		return false, nil
	}
	l, refs, err := r.readListing(ctx, listKey(v.number))
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return false, errListGone
	case errors.Is(err, backend.ErrAway) || ctx.Err() != nil:
		return false, err
	case err != nil:
		return false, nil //nolint:nilerr // the refs themselves are read then
	}
	v.refs, v.named = refs, l.Objects
	there := map[string]bool{}
	for _, e := range v.entries {
		there[e.key] = true
	}
	for _, key := range l.Done {
		if there[key] {
			v.done = append(v.done, key)
		}
	}
	return true, nil
}

// open returns the entries that the list takes no account of.
func (v *view) open() (out []refEntry) {
	done := map[string]bool{}
	for _, key := range v.done {
		done[key] = true
	}
	for _, e := range v.entries {
		if !done[e.key] {
			out = append(out, e)
		}
	}
	return out
}

// openEntries returns the names whose refs have to be read: those of open entries. A ref that this program
// pushed is known if nobody else changed it since: the newest list is older than its entry, and no other
// open entry has its name.
func (r *Remote) openEntries(v *view) (unread []string) {
	changed := map[string][]refEntry{}
	for _, e := range v.open() {
		changed[e.name] = append(changed[e.name], e)
	}
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	r.pushed.newest = max(r.pushed.newest, v.number)
	for name, by := range changed {
		own, ok := r.pushed.all[name]
		if ok && len(by) == 1 && own.ref.Nonce == by[0].nonce && own.after == v.number {
			v.refs[name] = own
		} else {
			unread = append(unread, name)
		}
	}
	for name, own := range r.pushed.all {
		if changed[name] == nil || own.after != v.number { // another program's list may have it
			delete(r.pushed.all, name)
		}
	}
	return unread
}

// settleEntries finds the entries that need no account any more, and tidies up.
func (r *Remote) settleEntries(ctx context.Context, v *view) {
	var now time.Time
	for _, i := range v.gc {
		now = later(now, i.Modified)
	}
	for _, e := range v.entries {
		now = later(now, e.at)
	}
	v.settled = append(v.settled, v.done...)
	for _, e := range v.open() {
		seen, there := v.refs[e.name]
		over := there && seen.ref.Nonce == e.nonce || e.removed || now.Sub(e.at) >= grace
		if over && v.bad[e.name] == nil {
			v.settled = append(v.settled, e.key)
			v.fresh++
		}
	}
	if len(v.done) > r.few {
		r.tidy(ctx, v)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// tidy deletes entries that the list names, and older lists. That they cannot be deleted is no error of
// the caller's.
func (r *Remote) tidy(ctx context.Context, v *view) {
	gone := v.done
	for _, i := range v.gc {
		if n := listNumber(i.Key); n > 0 && n < v.number {
			gone = append(gone, i.Key)
		}
	}
	_ = each(ctx, gone, func(ctx context.Context, key string) error { return r.b.Delete(ctx, key) })
}
