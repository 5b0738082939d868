package budget

import "sync"

// An Account counts the memory of the tenants' changes that are not on disk yet. A quarter of its size
// is reserved for the owner. The other tenants share the rest by the rule of a Budget: see maxUsedPerFree.
type Account struct {
	owner any
	size  int64

	mu     sync.Mutex
	used   int64
	peak   int64         // the largest value that used has had
	usedBy map[any]int64 // by tenant
	freed  chan struct{} // closed when memory is released
}

// NewAccount returns an account of size bytes, of which a quarter is reserved for owner.
func NewAccount(size int64, owner any) *Account {
	return &Account{owner: owner, size: size, usedBy: make(map[any]int64), freed: make(chan struct{})}
}

const (
	// The owner alone can use 1/ownerDivisor of the size.
	ownerDivisor = 4
	// For urgent changes, a tenant can have 1/urgentDivisor of the size more than its share.
	urgentDivisor = 8
)

// limitsLocked returns the largest number of bytes that a tenant can have, and the bytes that are free for it now.
func (a *Account) limitsLocked(tenant any) (limit, free int64) {
	if tenant == a.owner {
		return a.size, a.size - a.used
	}
	shared := a.size - a.size/ownerDivisor
	free = shared - (a.used - a.usedBy[a.owner])
	return shared / (maxUsedPerFree + 1) * maxUsedPerFree, min(free, a.size-a.used)
}

// Take adds bytes to the memory of a tenant. It returns false, and adds none, if the tenant would have more than its
// share. For urgent changes, it allows the tenant more than its share: see urgentDivisor.
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

// fitsLocked does the work of Fits. The caller holds a.mu.
func (a *Account) fitsLocked(tenant any, bytes int64, urgent bool) bool {
	limit, free := a.limitsLocked(tenant)
	free -= bytes
	fits := free >= 0 && (tenant == a.owner || a.usedBy[tenant]+bytes <= maxUsedPerFree*free)
	if urgent {
		fits = a.usedBy[tenant]+bytes <= limit+a.size/urgentDivisor && a.used+bytes <= a.size+a.size/urgentDivisor
	}

	return fits
}

// Add adds bytes to the memory of a tenant without a limit, because they are in use already.
func (a *Account) Add(tenant any, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addLocked(tenant, bytes)
}

func (a *Account) addLocked(tenant any, bytes int64) {
	a.used += bytes
	a.peak = max(a.peak, a.used)
	a.usedBy[tenant] += bytes
}

// Release subtracts bytes from the memory of a tenant.
func (a *Account) Release(tenant any, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.addLocked(tenant, -bytes); a.usedBy[tenant] == 0 {
		delete(a.usedBy, tenant)
	}
	a.wakeLocked()
}

// Wake closes the channel of Freed although no memory was released: a waiting caller may be allowed to
// take more than before.
func (a *Account) Wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakeLocked()
}

func (a *Account) wakeLocked() {
	close(a.freed)
	a.freed = make(chan struct{})
}

// Freed returns a channel that is closed at the next release of memory, or by Wake.
func (a *Account) Freed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.freed
}

// OverHalf reports whether a tenant has more than about half of its share, which depends on the memory of
// the other tenants.
func (a *Account) OverHalf(tenant any) bool {
	a.mu.Lock()
	defer a.mu.Unlock()

	limit, free := a.limitsLocked(tenant)
	if tenant == a.owner {
		return a.usedBy[tenant] > min(limit/2, free)
	}

	return 2*a.usedBy[tenant] > min(limit, free)
}

// NearlyFull reports whether all tenants together have more than 7/8 of the size.
func (a *Account) NearlyFull() bool { return a.Used() > a.size-a.size/8 }

// Used returns the number of bytes that all tenants have.
func (a *Account) Used() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// Peak returns the largest number of bytes that all tenants together have had.
func (a *Account) Peak() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peak
}
