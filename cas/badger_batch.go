package cas

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// A batch is a set of changes. It becomes one transaction if it fits into one,
// otherwise several in the order of the calls.
type batch struct {
	x     *database
	h     *handle
	txn   *badger.Txn
	n     uint64       // number of the transaction; 0: nothing is in it yet
	check func() error // runs before every transaction: is there space?
	err   error
}

func (x *database) batch(check func() error) *batch {
	b := &batch{x: x, check: check}
	if b.h, b.err = x.use(true); b.err == nil {
		b.txn = b.h.db.NewTransaction(true)
	}
	return b
}

func (b *batch) do(op func() error) {
	if b.err == nil {
		b.err = b.begin()
	}
	if b.err != nil {
		return
	}
	b.err = op()
	if errors.Is(b.err, badger.ErrTxnTooBig) {
		if b.err = b.write(); b.err == nil {
			b.txn, b.n = b.h.db.NewTransaction(true), 0
			if b.err = b.begin(); b.err == nil {
				b.err = op()
			}
		}
	}
}

// begin gives the transaction its number.
func (b *batch) begin() error {
	if b.n > 0 {
		return nil
	}
	b.n = b.x.written.Load() + 1
	return b.txn.Set(writtenKey(b.n), binary.LittleEndian.AppendUint64(nil, b.n))
}

// set stores a value; the slices belong to the batch from now on.
func (b *batch) set(key, value []byte) { b.do(func() error { return b.txn.Set(key, value) }) }

// delete removes a key, which belongs to the batch from now on.
func (b *batch) delete(key []byte) { b.do(func() error { return b.txn.Delete(key) }) }

func (b *batch) write() error {
	if b.check != nil {
		if err := b.check(); err != nil {
			return err
		}
	}
	if err := b.txn.Commit(); err != nil {
		return err
	}
	b.x.written.Store(max(b.x.written.Load(), b.n)) // one writer at a time
	return nil
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
func (b *batch) discard() {
	if b.h == nil {
		return
	}
	b.txn.Discard()
	b.x.done(b.h)
	b.h = nil
}
