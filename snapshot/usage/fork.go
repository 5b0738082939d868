package usage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// CreateBytes are what a new name is taken for until it is counted.
	CreateBytes = 576
	// countShare is the part of the time that is spent counting at the most: one
	// in so many.
	countShare = 10
)

// A Fork is how many bytes a fork has, with the forks in it, that others do not. To
// count them means to compare its states, so that is done only when what was counted last
// and what was written since are together more than the limit.
type Fork struct {
	Exports atomic.Int64 // into the store's repository, until the fork ends

	ready   atomic.Bool // it was counted since there is a limit
	counted atomic.Int64
	since   atomic.Int64

	mu   sync.Mutex // one counts at a time
	next time.Time  // before that, what was counted last holds
}

// Used is what there is at the most, in bytes.
func (f *Fork) Used() int64 { return f.counted.Load() + f.since.Load() + f.Exports.Load() }

// Reset records that nothing was counted until now.
func (f *Fork) Reset() { f.ready.Store(false) }

// Since is what was written since it was counted last.
func (f *Fork) Since() int64 { return f.since.Load() }

// Take takes n bytes, or after a count, if that is not beyond the limit.
func (f *Fork) Take(n, limit int64, count func() error) (ok bool, err error) {
	if f.take(n, limit) {
		return true, nil
	}
	if err := count(); err != nil {
		return false, err
	}
	return f.take(n, limit), nil
}

func (f *Fork) take(n, limit int64) bool {
	f.since.Add(n)
	if f.Used() <= limit && f.ready.Load() {
		return true
	}
	f.since.Add(-n)
	return false
}

// Charge counts n bytes, which were taken, as an export.
func (f *Fork) Charge(n int64, taken bool) {
	if taken {
		f.since.Add(-n) // counting what is in files leaves exports alone
	}
	f.Exports.Add(n)
}

// A Chain is the states of a fork from the base to the present. Some may be removed
// meanwhile.
type Chain []catalogue.Root

// Count counts what a fork has, unless that was done just now. chains are those of the fork
// and of each fork in it, with Since of that moment; hold keeps a state while it is read.
func (f *Fork) Count(src *tree.Source, hold func(*tree.State) (release func()), chains func() ([]Chain, int64)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	start := time.Now()
	if f.ready.Load() && start.Before(f.next) {
		return nil
	}
	all, since := chains()
	c := counter{src: src, hold: hold, seen: make(map[cas.Hash]int64)}
	for _, chain := range all {
		if err := c.written(chain); err != nil {
			return err
		}
	}
	f.since.Add(-since)
	f.counted.Store(c.total)
	f.ready.Store(true)
	f.next = time.Now().Add(countShare * time.Since(start))
	return nil
}

type counter struct {
	src   *tree.Source
	hold  func(*tree.State) (release func())
	seen  map[cas.Hash]int64
	total int64
}

// written counts the bytes that each of a chain of states has and the one before has
// not, those in seen only once.
func (c *counter) written(chain Chain) error {
	var before *tree.State
	for _, r := range chain {
		st, err := r.Load(c.src)
		if errors.Is(err, cas.ErrNotFound) {
			continue
		}
		if err == nil && before != nil {
			err = c.between(before, st)
		}
		if err != nil && !errors.Is(err, cas.ErrNotFound) {
			return err
		}
		before = st
	}
	return nil
}

func (c *counter) between(a, b *tree.State) error {
	defer c.hold(a)()
	defer c.hold(b)()
	return tree.Written(context.Background(), c.src, a, b, func(p content.Piece) {
		if p.Key.IsZero() { // an inode
			c.total += p.Bytes
		} else if more := p.Bytes - c.seen[p.Key]; more > 0 {
			c.seen[p.Key] += more
			c.total += more
		}
	})
}
