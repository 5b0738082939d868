package manifest

import (
	"bytes"
	"fmt"
	"io"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// loadState sets the state from the longest chain of records of both copies. It reports false if the
// manifest is new.
func (m *Manifest) loadState(scans [2]*copyScan) (usable bool, err error) {
	m.state.changed = map[string][]byte{}
	chain, last := longestChain(scans)
	if len(chain) == 0 {
		if m.o.AllowNew && scans[0].missing && scans[1].missing {
			return false, nil
		}
		return false, fmt.Errorf("%w (%w; %w)", ErrLost, scans[0].damage, scans[1].damage)
	}

	lastReached := chain[len(chain)-1].seq
	if lastReached < last && !m.o.Salvage {
		return false, errs.New(errs.Damaged, "both copies of the catalogue are damaged behind commit %d of %d "+
			"(%w; %w); run `amberfs verify --repair`, which goes on from commit %d and keeps the two files in quarantine",
			lastReached, last, scans[0].damageAt(last), scans[1].damageAt(last), lastReached)
	}

	for _, rec := range chain {
		if err := m.applyRecord(rec); err != nil {
			return false, err
		}
	}

	if lastReached < last { // new commits must not use the numbers of ignored commits
		m.state.seq, m.quarantineOld = last+1, true
	}

	return true, nil
}

// longestChain returns the longest chain of records with consecutive sequence numbers: the first record
// of one copy, then commits of either copy. last is the highest sequence number of all records.
func longestChain(scans [2]*copyScan) (chain []recordPlace, last uint64) {
	commits := map[uint64]recordPlace{}

	for _, c := range scans {
		last = max(last, c.unreadableSeq)
		for _, rec := range c.records {
			last = max(last, rec.seq)
			if rec.off > 0 {
				commits[rec.seq] = rec
			}
		}
	}

	for _, c := range scans {
		if c.baseLen == 0 {
			continue
		}
		candidate := []recordPlace{c.records[0]}
		for rec, ok := commits[c.records[0].seq+1]; ok; rec, ok = commits[rec.seq+1] {
			candidate = append(candidate, rec)
		}
		if len(chain) == 0 || candidate[len(candidate)-1].seq > chain[len(chain)-1].seq {
			chain = candidate
		}
	}

	return chain, last
}

// applyRecord applies the entries of a record to the state. The checksum of the record was checked before.
func (m *Manifest) applyRecord(rec recordPlace) error {
	f, err := vfs.Open(m.fs, m.path(copyNames[rec.copy]))
	if err != nil {
		return err
	}
	defer f.Close()

	body := &bodyReader{r: io.NewSectionReader(f, rec.off+headerSize, rec.n-headerSize)}
	if rec.off == 0 {
		err = m.applyBase(body, rec.n-headerSize)
	} else {
		err = decode(body, m.state.apply)
	}
	if err == nil && !m.state.fits(0, 0) {
		err = errTooMuch
	}
	if body.err != nil {
		return fmt.Errorf("read %s: %w", copyNames[rec.copy], body.err)
	}
	if err != nil {
		return errs.New(errs.Damaged, "%s at byte %d: %w", copyNames[rec.copy], rec.off, err)
	}

	m.state.seq = rec.seq

	return nil
}

// applyBase applies the body of the first record, which has n bytes.
func (m *Manifest) applyBase(body io.Reader, n int64) error {
	b := make([]byte, n)
	if _, err := io.ReadFull(body, b); err != nil {
		return err
	}
	if m.state.base = readBase(b); m.state.base == nil {
		return decode(bytes.NewReader(b), m.state.apply)
	}

	m.state.count, m.state.bytes = m.state.base.count, m.state.base.bytes
	return nil
}

// A bodyReader reads a body. It records an error of the disk, so that the caller can distinguish the
// error from an error of the decoder.
type bodyReader struct {
	r   io.Reader
	err error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}
