package index

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/amberfs/amberfs/internal/errs"
)

// A Batch is a list of changes. They are written in one transaction, or in the order of the calls in
// several transactions if one would be too large. Commit returns the first error of all calls.
type Batch struct {
	x     *DB
	txn   *badger.Txn
	size  int64               // bytes of the transaction in the log
	check func(n int64) error // returns an error if the disk has no space for n bytes
	err   error
}

// entryOverhead is the number of bytes of an entry in a log in addition to its key and value.
const entryOverhead = 24

// Batch returns an empty batch. check is called before each transaction, and returns an error if the
// disk has no space for n bytes; it may be nil. The caller ends the batch with Commit or Discard.
func (x *DB) Batch(check func(n int64) error) *Batch {
	return &Batch{x: x, txn: x.db.NewTransaction(true), check: check}
}

// add calls op, which adds a change to the transaction. If the transaction is full, add commits it,
// begins another transaction and calls op again.
func (b *Batch) add(key, value []byte, op func() error) {
	if b.err != nil {
		return
	}
	b.err = op()
	if errors.Is(b.err, badger.ErrTxnTooBig) {
		if b.err = b.commitTxn(); b.err != nil {
			return
		}

		b.txn, b.size = b.x.db.NewTransaction(true), 0
		b.err = op()
	}

	b.size += int64(len(key) + len(value) + entryOverhead)
}

// Put stores a value. The caller must not change the slices afterwards.
func (b *Batch) Put(key, value []byte) {
	b.add(key, value, func() error { return b.txn.Set(key, value) })
}

// Delete deletes a key. The caller must not change the slice afterwards.
func (b *Batch) Delete(key []byte) { b.add(key, nil, func() error { return b.txn.Delete(key) }) }

func (b *Batch) commitTxn() error {
	if b.check != nil {
		if err := b.check(b.size); err != nil {
			return err
		}
	}

	if err := b.x.markLogsInMemory(); err != nil {
		return errs.WrapNoSpace(err)
	}

	return b.txn.Commit()
}

// Commit writes all changes and makes them durable.
func (b *Batch) Commit() error {
	defer b.Discard()

	if b.err != nil {
		return fmt.Errorf("write index: %w", b.err)
	}
	if err := b.commitTxn(); err != nil {
		return fmt.Errorf("write index: %w", err)
	}

	return nil
}

// Discard ends a batch without writing its last transaction. After Commit it has no effect.
func (b *Batch) Discard() { b.txn.Discard() }
