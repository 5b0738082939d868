package cas

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// A batch is a set of changes. It becomes one transaction if it fits into one,
// otherwise several in the order of the calls.
type batch struct {
	x     *database
	txn   *badger.Txn
	size  int64               // bytes of the transaction
	check func(n int64) error // runs before every transaction: is there space?
	err   error
}

// entryOverhead is what an entry takes in a log beside its key and its value, in bytes.
const entryOverhead = 24

func (x *database) batch(check func(n int64) error) *batch {
	return &batch{x: x, txn: x.db.NewTransaction(true), check: check}
}

func (b *batch) do(key, value []byte, op func() error) {
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

// set stores a value; the slices belong to the batch from now on.
func (b *batch) set(key, value []byte) {
	b.do(key, value, func() error { return b.txn.Set(key, value) })
}

// delete removes a key, which belongs to the batch from now on.
func (b *batch) delete(key []byte) { b.do(key, nil, func() error { return b.txn.Delete(key) }) }

func (b *batch) write() error {
	if b.check != nil {
		if err := b.check(b.size); err != nil {
			return err
		}
	}
	if err := b.x.markUnbacked(); err != nil {
		return noSpace(err)
	}
	return b.txn.Commit()
}

// commit makes everything durable.
func (b *batch) commit() error {
	defer b.discard()
	if b.err == nil {
		b.err = b.write()
	}
	if b.err != nil {
		return fmt.Errorf("write index: %w", b.err)
	}
	return nil
}

// discard ends a batch without writing it.
func (b *batch) discard() { b.txn.Discard() }
