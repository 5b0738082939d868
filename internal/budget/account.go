package budget

import "sync"

// An Account counts memory that tenants fill, and that is given back later, when what fills it is
// on disk. A quarter is left to the owner; the other tenants share the rest as those of a Budget
// do. Memory that cannot be refused is counted beyond all bounds.
type Account struct {
	owner any
	size  int64

	mu    sync.Mutex
	used  int64
	most  int64 // that was used at a time
	of    map[any]int64
	freed chan struct{} // closed when memory is given back
}

func NewAccount(size int64, owner any) *Account {
	return &Account{owner: owner, size: size, of: make(map[any]int64), freed: make(chan struct{})}
}

const (
	// ownerShare of the size, one part in so many, is for the owner alone.
	ownerShare = 4
	// urgentShare is what each tenant can have beyond for what is urgent.
	urgentShare = 8
)

// leftLocked returns how many bytes a tenant could have, and how many more are free for it.
func (a *Account) leftLocked(tenant any) (most, left int64) {
	if tenant == a.owner {
		return a.size, a.size - a.used
	}
	forOthers := a.size - a.size/ownerShare
	left = forOthers - (a.used - a.of[a.owner])
	return forOthers / (fraction + 1) * fraction, min(left, a.size-a.used)
}

// Take adds bytes to what a tenant has, unless that is too much, which it reports. With urgent, a
// little more than the share of the tenant can be had.
func (a *Account) Take(tenant any, bytes int64, urgent bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	fits := a.fitsLocked(tenant, bytes, urgent)
	if fits {
		a.addLocked(tenant, bytes)
	}
	return fits
}

// Fits reports whether Take would add the bytes.
func (a *Account) Fits(tenant any, bytes int64, urgent bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fitsLocked(tenant, bytes, urgent)
}

func (a *Account) fitsLocked(tenant any, bytes int64, urgent bool) bool {
	most, left := a.leftLocked(tenant)
	left -= bytes
	fits := left >= 0 && (tenant == a.owner || a.of[tenant]+bytes <= fraction*left)
	if urgent {
		fits = a.of[tenant]+bytes <= most+a.size/urgentShare && a.used+bytes <= a.size+a.size/urgentShare
	}
	return fits
}

// Add is Take for memory that was taken already.
func (a *Account) Add(tenant any, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addLocked(tenant, bytes)
}

func (a *Account) addLocked(tenant any, bytes int64) {
	a.used += bytes
	a.most = max(a.most, a.used)
	a.of[tenant] += bytes
}

// Give gives bytes of a tenant back.
func (a *Account) Give(tenant any, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.addLocked(tenant, -bytes); a.of[tenant] == 0 {
		delete(a.of, tenant)
	}
	a.wakeLocked()
}

// Wake wakes those that wait, who may find more than before.
func (a *Account) Wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakeLocked()
}

func (a *Account) wakeLocked() {
	close(a.freed)
	a.freed = make(chan struct{})
}

// Freed returns a channel that is closed when memory is given back next.
func (a *Account) Freed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.freed
}

// Half reports whether a tenant has more than about half of what it could have beside the others.
func (a *Account) Half(tenant any) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	most, left := a.leftLocked(tenant)
	if tenant == a.owner {
		return a.of[tenant] > min(most/2, left)
	}
	return 2*a.of[tenant] > min(most, left)
}

// NearlyFull reports whether all tenants together have nearly everything.
func (a *Account) NearlyFull() bool { return a.Used() > a.size-a.size/8 }

// Used returns how many bytes all tenants have.
func (a *Account) Used() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// Most returns how many bytes all tenants had when that was the most.
func (a *Account) Most() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most
}
