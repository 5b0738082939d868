package journal

import (
	"fmt"
	"hash/crc32"

	"github.com/amberfs/amberfs/internal/errs"
)

// maxBufferedRecordSize is the largest size in bytes of a record that is written with one write. The data of a larger
// record is written with a second write, so that it is not copied.
const maxBufferedRecordSize = 32 << 10

// Append adds one record, whose payload is head followed by data, and returns the position of data[0].
// When Append returns, the record survives the death of the process; Sync makes it survive a power
// cut. After an error no part of the record is in the log. If urgent is set, Append may use the space of
// Options.Reserve: a change that frees space must not fail on a full disk.
//
// Errors are errs.NoSpace (the next Append may succeed), ErrTooLarge, errs.Closed
// and ErrFailed. Type 0 is not allowed.
func (j *Journal) Append(t Type, head, data []byte, urgent bool) (int64, error) {
	n := int64(len(head)) + int64(len(data))
	if n > MaxPayload {
		return 0, fmt.Errorf("%w: %d bytes, %d allowed", ErrTooLarge, n, MaxPayload)
	}
	if t == typeMark {
		return 0, fmt.Errorf("record type %d is reserved", t)
	}

	j.mu.Lock()
	defer j.mu.Unlock()

	if j.closed {
		return 0, errs.Closed
	}
	if err := j.WriteErr(); err != nil {
		return 0, err
	}

	need := recordSize(n)
	if j.cur.segment == nil || j.cur.off+need > j.cur.size {
		if err := j.newSegment(j.disk.segSize, need, urgent); err != nil {
			return 0, err
		}
	}

	j.zeroAhead(need)
	pos := j.cur.base + j.cur.off + recordHeaderSize + int64(len(head))
	if err := j.writeRecord(t, head, data); err != nil {
		return 0, err
	}

	j.cur.endsInMark = false
	if j.nextAppend != nil {
		close(j.nextAppend)
		j.nextAppend = nil
	}

	return pos, nil
}

// writeRecord writes a record at the end of the current segment, which has room for it. The caller holds
// j.mu.
func (j *Journal) writeRecord(t Type, head, data []byte) error {
	length := len(head) + len(data)
	h := recordHead{
		length:     uint32(length),
		typ:        t,
		seq:        j.seq,
		durablePos: j.sync.durablePos.Load(),
		payloadCRC: crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, data),
	}

	var prefix [recordHeaderSize]byte
	putRecordHead(prefix[:], h, j.cur.seed)
	size := recordSize(int64(length))

	b, at := j.cur.buf[:0], j.cur.off
	if !j.cur.validHeader { // the first record is written together with the header of the segment
		b, at = append(b, j.cur.hdr.encode()...), 0
	}

	b = append(append(b, prefix[:]...), head...)
	separate := size > maxBufferedRecordSize // a kill between the writes leaves a record with a wrong checksum
	if !separate {
		b = append(b, data...)
	}
	if cap(b) <= 2*maxBufferedRecordSize {
		j.cur.buf = b
	}

	_, err := j.cur.f.WriteAt(b, at)
	if err == nil && separate {
		_, err = j.cur.f.WriteAt(data, at+int64(len(b)))
	}

	if isFull(err) {
		// Only a filesystem that cannot preallocate space fails here. The next record overwrites the written
		// part, which has no valid checksum.
		return fmt.Errorf("%w: %w", errs.NoSpace, err)
	}
	if err != nil {
		return j.fail(j.log, "writing a record", err)
	}

	if !j.cur.validHeader {
		j.cur.validHeader = true // set before end is stored: after that, readers read it without j.mu
	}

	j.cur.off += size
	j.seq++
	end := j.cur.base + j.cur.off
	j.cur.end.Store(end)
	j.end.Store(end)

	return nil
}

const (
	aheadSize      = 256 << 10 // bytes of zeros that zeroAhead writes at a time
	smallSyncBytes = 64 << 10  // zeroAhead writes only if the log is synced after fewer bytes
)

var aheadZeros [aheadSize]byte

// zeroAhead writes zeros to the place of the next records, if the log is synced
// after every few bytes. The first write into a preallocated block changes the
// metadata of the file, and fdatasync then also waits for the filesystem's own journal.
// With zeroAhead this wait happens once in aheadSize bytes and not at every sync.
//
// The caller holds j.mu, and will write a record of size bytes.
func (j *Journal) zeroAhead(size int64) {
	end := j.end.Load()
	if j.sync.durablePos.Load() != end {
		return // not synced since the last record
	}

	small := end-j.cur.lastSync < smallSyncBytes
	j.cur.lastSync = end
	from := j.cur.off + size
	if !small || from <= j.cur.zeroedEnd {
		return
	}

	n := min(aheadSize, j.cur.size-from)
	if n <= 0 {
		return
	}
	// Ignore an error: this write is only an optimization, and the write of the record reports a failing
	// disk.
	if _, err := j.cur.f.WriteAt(aheadZeros[:n], from); err == nil {
		j.cur.zeroedEnd = from + n
	}
}
