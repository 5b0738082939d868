package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// checkTables looks at the end of every table of the index. A table cut short
// makes Badger panic on a goroutine of its own, and one whose block index has a
// wrong checksum it leaves out with only a line in the log: objects would be
// missing silently.
//
// So does a manifest that was cut short: Badger removes the tables that it does
// not name.
func checkTables(dir string, o badger.Options) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return fmt.Errorf("list tables of the index: %w", err)
	}
	if err := checkManifest(dir, o, names); err != nil {
		return err
	}
	total := int64(0)
	for _, name := range names {
		if fi, err := os.Stat(name); err == nil {
			total += fi.Size()
		}
	}
	for _, name := range names {
		if err := checkTable(name, total <= fullCheck); err != nil {
			return fmt.Errorf("%w: table %s: %v", errIndexBroken, filepath.Base(name), err)
		}
	}
	return nil
}

var errTableShort = errors.New("cut short")

// checkTable reads a table from its end: the length of the checksum (4 bytes, big
// endian), the checksum, the length of the block index (4 bytes), the block index,
// which has the places of the blocks. Of them it reads at least the two that Badger
// reads when it opens a table.
func checkTable(name string, all bool) (err error) {
	defer func() { // the block index is none
		if p := recover(); p != nil {
			err = fmt.Errorf("block index: %v", p)
		}
	}()
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	end := fi.Size()
	before := func(n int64) ([]byte, error) {
		if n > end {
			return nil, errTableShort
		}
		end -= n
		b := make([]byte, n)
		return b, readExactly(f, b, end)
	}
	sized := func() ([]byte, error) {
		b, err := before(4)
		if err != nil {
			return nil, err
		}
		return before(int64(binary.BigEndian.Uint32(b)))
	}
	b, err := sized()
	if err != nil {
		return err
	}
	var sum pb.Checksum
	if err := proto.Unmarshal(b, &sum); err != nil {
		return err
	}
	if b, err = sized(); err != nil {
		return err
	}
	if len(b) == 0 {
		return errTableShort
	}
	if err := y.VerifyChecksum(b, &sum); err != nil {
		return err
	}
	blocks := fb.GetRootAsTableIndex(b, 0)
	for i, n := 0, blocks.OffsetsLength(); i < n; i++ {
		if !all && i > 0 && i < n-1 {
			continue
		}
		var at fb.BlockOffset
		if !blocks.Offsets(&at, i) || int64(at.Offset())+int64(at.Len()) > fi.Size() {
			return errTableShort
		}
		block := make([]byte, at.Len())
		if err := readExactly(f, block, int64(at.Offset())); err != nil {
			return err
		}
		if err := checkBlock(block); err != nil {
			return fmt.Errorf("block at %d: %w", at.Offset(), err)
		}
	}
	return nil
}

// checkBlock reads a block from its end: the length of the checksum (4 bytes, big
// endian), the checksum, and what that is of. Badger follows the numbers in there
// before it looks at the checksum.
func checkBlock(b []byte) error {
	if len(b) < 4 {
		return errTableShort
	}
	n := len(b) - 4
	size := int(binary.BigEndian.Uint32(b[n:]))
	if size > n {
		return errTableShort
	}
	var sum pb.Checksum
	if err := proto.Unmarshal(b[n-size:n], &sum); err != nil {
		return err
	}
	return y.VerifyChecksum(b[:n-size], &sum)
}

// checkManifest compares the manifest with the tables that are there. A kill can
// leave one that it does not name yet; then, too, the index is built anew.
func checkManifest(dir string, o badger.Options, tables []string) error {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // incomplete has looked
	}
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	defer f.Close()
	m, _, err := badger.ReplayManifestFile(f, 0, o)
	if err != nil {
		return fmt.Errorf("%w: manifest: %v", errIndexBroken, err)
	}
	there := make(map[uint64]bool)
	for _, name := range tables {
		id, ok := table.ParseFileID(name)
		there[id] = ok
		if _, named := m.Tables[id]; ok && !named {
			err := errIndexBroken
			if wasKilled(dir) {
				err = errIndexUnfit
			}
			return fmt.Errorf("%w: the manifest does not name table %s", err, filepath.Base(name))
		}
	}
	for id := range m.Tables {
		if !there[id] {
			return fmt.Errorf("%w: table %06d is missing", errIndexBroken, id)
		}
	}
	return nil
}

// fullCheck is the size of an index up to which opening it reads all of its
// tables, in bytes. Larger ones are read when something is not found.
const fullCheck = 128 << 20

// check reads all tables and compares the checksums. Badger takes a block with
// a wrong one for one without the key that is looked for.
func (x *index) check() (err error) {
	if x.dir == "" {
		return nil
	}
	if err := x.mapped(x.db.VerifyChecksum); err != nil {
		return x.unreadable(err)
	}
	return nil
}

// missing returns the name of a file of the open index that is gone, "" if there is
// none. A compaction removes tables all the time.
func (x *index) missing() string {
	if x.dir == "" {
		return ""
	}
	gone := func(name string) bool {
		_, err := os.Lstat(filepath.Join(x.dir, name))
		return errors.Is(err, fs.ErrNotExist)
	}
	if gone(badger.ManifestFilename) {
		return badger.ManifestFilename
	}
	look := func() map[string]bool {
		names := make(map[string]bool)
		_ = x.mapped(func() error { // a table that was cut is found by who reads it
			for _, t := range x.db.Tables() {
				if name := table.IDToFilename(t.ID); gone(name) {
					names[name] = true
				}
			}
			return nil
		})
		return names
	}
	first := look()
	if len(first) == 0 {
		return ""
	}
	for name := range look() {
		if first[name] {
			return name
		}
	}
	return ""
}

// doubtful is check for who has not found an object that must be there. It
// looks at most every so often.
func (x *index) doubtful() error {
	now := time.Now().UnixNano()
	last := x.checked.Load()
	if now-last < int64(10*time.Second) || !x.checked.CompareAndSwap(last, now) {
		return nil
	}
	return x.check()
}
