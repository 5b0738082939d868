package index

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/amberfs/amberfs/internal/errs"
)

// A Batch is a set of changes. It becomes one transaction if it fits into one,
// otherwise several in the order of the calls.
type Batch struct {
	x     *DB
	txn   *badger.Txn
	size  int64               // bytes of the transaction
	check func(n int64) error // runs before every transaction: is there space?
	err   error
}

// entryOverhead is what an entry takes in a log beside its key and its value, in bytes.
const entryOverhead = 24

// Batch begins one; check may be nil.
func (x *DB) Batch(check func(n int64) error) *Batch {
	return &Batch{x: x, txn: x.db.NewTransaction(true), check: check}
}

func (b *Batch) do(key, value []byte, op func() error) {
	if b.err != nil {
		return
	}
	b.err = op()
	if errors.Is(b.err, badger.ErrTxnTooBig) {
		if b.err = b.write(); b.err == nil {
			b.txn, b.size = b.x.db.NewTransaction(true), 0
			b.err = op()
		}
	}
	b.size += int64(len(key) + len(value) + entryOverhead)
}

// Put stores a value; the slices belong to the batch from now on.
func (b *Batch) Put(key, value []byte) {
	b.do(key, value, func() error { return b.txn.Set(key, value) })
}

// Delete removes a key, which belongs to the batch from now on.
func (b *Batch) Delete(key []byte) { b.do(key, nil, func() error { return b.txn.Delete(key) }) }

func (b *Batch) write() error {
	if b.check != nil {
		if err := b.check(b.size); err != nil {
			return err
		}
	}
	if err := b.x.markLogsInMemory(); err != nil {
		return errs.Full(err)
	}
	return b.txn.Commit()
}

// Commit makes everything durable.
func (b *Batch) Commit() error {
	defer b.Discard()
	if b.err == nil {
		b.err = b.write()
	}
	if b.err != nil {
		return fmt.Errorf("write index: %w", b.err)
	}
	return nil
}

// Discard ends a batch without writing it.
func (b *Batch) Discard() { b.txn.Discard() }
