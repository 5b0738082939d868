package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// checkTables looks at the end of every table of the index. A table cut short
// makes Badger panic on a goroutine of its own, and one whose block index has a
// wrong checksum it leaves out with only a line in the log: objects would be
// missing silently.
func checkTables(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return fmt.Errorf("list tables of the index: %w", err)
	}
	for _, name := range names {
		if err := checkTable(name); err != nil {
			return fmt.Errorf("%w: table %s: %v", errIndexBroken, filepath.Base(name), err)
		}
	}
	return nil
}

var errTableShort = errors.New("cut short")

// checkTable reads a table from its end: the length of the checksum (4 bytes, big
// endian), the checksum, the length of the block index (4 bytes), the block index.
func checkTable(name string) error {
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
	return y.VerifyChecksum(b, &sum)
}
