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

// An entry is a value on the remote whose key announces a change of one ref. On a remote with entries, a
// program reads all refs from the newest list and the entries, without one request for each ref:
//
//	push   writes an empty entry with its nonce and the name of its ref. Less than maxMarkAge later it
//	       writes the ref.
//	rm     writes an empty entry, deletes the ref, and then writes the word "removed" into the entry.
//	scan   reads the entries, then the newest list, then each ref that an entry names. It takes the
//	       other refs from the list. Then it may write a list with the next number, unless another
//	       scan was faster. The list has the refs, and the keys of the entries that it includes.
//	tidy   deletes older lists, and the entries that the newest list includes.
//
// A scan finds every ref that was written before the scan began:
//
//  1. If the entry of the ref existed when the scan read the entries, the scan read the ref.
//  2. If the entry had been deleted before, the newest list at that time included it, and each later
//     list is made from the list before it.
//
// A list includes an entry only if the scan read the ref of that push, if the removal had ended before
// the entries were read, or if the entry is older than stagePeriod. A ref that was changed without an
// entry, by an older program, a person or a late request, is found by the next scan that compares
// sums: verify, or a collection that removes objects.

const (
	entryPrefix   = "new/"
	removalPrefix = "rm-"
	listKeyPrefix = listingKey + "-"
)

// A refEntry is an entry that was read from the remote.
type refEntry struct {
	key, nonce, name string    // the key of the entry, the nonce of the push (random for a removal), the name of the ref
	isRemoved        bool      // the entry is of a removal that has ended
	writtenAt        time.Time // time by the service's clock
}

// errListReplaced: the list was deleted before it was read, because another program has written a newer one.
var errListReplaced = errors.New("the list was replaced")

// listKey returns the key of the list with a number, from 1 on.
func listKey(number int) string { return fmt.Sprintf("%s%012d", listKeyPrefix, number) }

// listNumber returns the number of the list with a key, or 0 if it is not the key of a list.
func listNumber(key string) int {
	digits, ok := strings.CutPrefix(key, listKeyPrefix)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || listKey(n) != key {
		return 0
	}
	return n
}

// writeEntry writes the entry of a push, if the remote has entries.
func (r *Remote) writeEntry(ctx context.Context, f *Format, nonce, name string) error {
	if !f.HasEntries {
		return nil
	}
	return r.b.Put(ctx, entryPrefix+nonce+"."+name, nil, backend.PutOptions{})
}

// removeRef deletes a ref. If the remote has entries, it writes the entry before and after the deletion.
func (r *Remote) removeRef(ctx context.Context, f *Format, name string) error {
	if !f.HasEntries {
		return r.b.Delete(ctx, "ref/"+name)
	}
	key := entryPrefix + removalPrefix + uuid.NewString() + "." + name
	if err := r.b.Put(ctx, key, nil, backend.PutOptions{}); err != nil {
		return err
	}
	if err := r.b.Delete(ctx, "ref/"+name); err != nil {
		return err
	}

	return r.b.Put(ctx, key, []byte("removed"), backend.PutOptions{})
}

// newestKnownListNumber returns the highest number of a list that this program has read or written.
func newestKnownListNumber(r *Remote) int {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	return r.pushed.newestListNumber
}

// readEntries lists the entries of the remote. It needs their keys, sizes and times, not their values.
func (r *Remote) readEntries(ctx context.Context) (out []refEntry, err error) {
	err = r.b.List(ctx, entryPrefix, func(i backend.Info) error {
		nonce, _ := strings.CutPrefix(i.Key[len(entryPrefix):], removalPrefix)
		nonce, name, _ := strings.Cut(nonce, ".")
		if uuid.Validate(nonce) == nil {
			out = append(out, refEntry{i.Key, nonce, name, i.Size > 0, i.Modified})
		}

		return nil
	})
	return out, err
}

// readNewestList reads the list with the number v.newestListNumber into v. usable is false if there is no list, or
// if the list is damaged. Errors: errListReplaced; backend.ErrAway; the error of ctx.
func (v *refScan) readNewestList(ctx context.Context) (usable bool, err error) {
	if v.newestListNumber == 0 {
		return false, nil
	}
	l, refs, err := v.r.readListing(ctx, listKey(v.newestListNumber))
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return false, errListReplaced
	case errors.Is(err, backend.ErrAway) || ctx.Err() != nil:
		return false, err
	case err != nil:
		return false, nil //nolint:nilerr // without a list, the caller reads each ref
	}

	v.refs, v.listedObjects = refs, l.Objects
	exists := map[string]bool{}
	for _, e := range v.entries {
		exists[e.key] = true
	}

	for _, key := range l.IncludedEntries {
		if exists[key] {
			v.listedEntries = append(v.listedEntries, key)
		}
	}

	return true, nil
}

// pendingEntries returns the entries that the list does not include.
func (v *refScan) pendingEntries() (out []refEntry) {
	listed := map[string]bool{}
	for _, key := range v.listedEntries {
		listed[key] = true
	}

	for _, e := range v.entries {
		if !listed[e.key] {
			out = append(out, e)
		}
	}

	return out
}

// takePushedRefs returns the names of the refs that the caller must read, because a pending entry names them. If this
// program pushed a ref and no other program has changed it since, takePushedRefs puts the ref into v.refs instead.
// Two conditions prove this: the entry of the push is the only pending entry of the ref, and the newest list is still
// the one that was the newest before the push.
func (v *refScan) takePushedRefs() (unread []string) {
	changed := map[string][]refEntry{}
	for _, e := range v.pendingEntries() {
		changed[e.name] = append(changed[e.name], e)
	}

	v.r.pushed.mu.Lock()
	defer v.r.pushed.mu.Unlock()

	v.r.pushed.newestListNumber = max(v.r.pushed.newestListNumber, v.newestListNumber)
	for name, entries := range changed {
		own, ok := v.r.pushed.refs[name]
		if ok && len(entries) == 1 && own.ref.Nonce == entries[0].nonce && own.listNumberBefore == v.newestListNumber {
			v.refs[name] = own
		} else {
			unread = append(unread, name)
		}
	}

	for name, own := range v.r.pushed.refs {
		// The record of a push is dropped if a list includes the push, or if a newer list may include it.
		if changed[name] == nil || own.listNumberBefore != v.newestListNumber {
			delete(v.r.pushed.refs, name)
		}
	}

	return unread
}

// settleEntries sets v.settledEntries, the entries that the next list includes. If the newest list includes many
// entries, it also calls deleteOldKeys.
func (v *refScan) settleEntries(ctx context.Context) {
	var now time.Time
	for _, i := range v.gcKeys {
		now = laterTime(now, i.Modified)
	}
	for _, e := range v.entries {
		now = laterTime(now, e.writtenAt)
	}

	v.settledEntries = append(v.settledEntries, v.listedEntries...)
	for _, e := range v.pendingEntries() {
		known, exists := v.refs[e.name]
		ended := exists && known.ref.Nonce == e.nonce || e.isRemoved || now.Sub(e.writtenAt) >= stagePeriod
		if ended && v.readErrors[e.name] == nil {
			v.settledEntries = append(v.settledEntries, e.key)
			v.changeCount++
		}
	}

	if len(v.listedEntries) > v.r.maxUnlisted {
		v.deleteOldKeys(ctx)
	}
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// deleteOldKeys deletes the entries that the newest list includes, and older lists. It ignores errors: a
// later scan tries again.
func (v *refScan) deleteOldKeys(ctx context.Context) {
	old := v.listedEntries
	for _, i := range v.gcKeys {
		if n := listNumber(i.Key); n > 0 && n < v.newestListNumber {
			old = append(old, i.Key)
		}
	}

	_ = backend.DeleteAll(ctx, v.r.b, old)
}
