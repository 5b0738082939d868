package manifest

import (
	"fmt"
	"io"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// loadState sets the state from the longest chain of records of both copies. It reports false if the
// manifest is new.
func (m *Manifest) loadState(found [2]*copyScan) (usable bool, err error) {
	m.state.entries = map[string][]byte{}
	chain, last := longestChain(found)
	if len(chain) == 0 {
		if m.o.New && found[0].missing && found[1].missing {
			return false, nil
		}
		return false, fmt.Errorf("%w (%w; %w)", ErrLost, found[0].damage, found[1].damage)
	}

	reach := chain[len(chain)-1].seq
	if reach < last && !m.o.Salvage {
		return false, errs.New(errs.Damaged, "both copies of the catalogue are damaged behind commit %d of %d "+
			"(%w; %w); run `amberfs verify --repair`, which goes on from commit %d and keeps the two files in quarantine",
			reach, last, found[0].damageAt(last), found[1].damageAt(last), reach)
	}

	for _, at := range chain {
		if err := m.applyRecord(at); err != nil {
			return false, err
		}
	}

	if reach < last { // new commits must not use the numbers of ignored commits
		m.state.seq, m.quarantineOld = last+1, true
	}

	return true, nil
}

// longestChain returns the longest chain of records with consecutive sequence numbers: the first record
// of one copy, then commits of either copy. last is the highest sequence number of all records.
func longestChain(found [2]*copyScan) (chain []recordPlace, last uint64) {
	commits := map[uint64]recordPlace{}

	for _, c := range found {
		last = max(last, c.minSeq)
		for _, at := range c.records {
			last = max(last, at.seq)
			if at.off > 0 {
				commits[at.seq] = at
			}
		}
	}

	for _, c := range found {
		if c.base == 0 {
			continue
		}
		candidate := []recordPlace{c.records[0]}
		for at, ok := commits[c.records[0].seq+1]; ok; at, ok = commits[at.seq+1] {
			candidate = append(candidate, at)
		}
		if len(chain) == 0 || candidate[len(candidate)-1].seq > chain[len(chain)-1].seq {
			chain = candidate
		}
	}

	return chain, last
}

// applyRecord applies the entries of a record to the state. The checksum of the record was checked before.
func (m *Manifest) applyRecord(at recordPlace) error {
	f, err := vfs.Open(m.fs, m.path(copyNames[at.copy]))
	if err != nil {
		return err
	}
	defer f.Close()

	body := &bodyReader{r: io.NewSectionReader(f, at.off+headerSize, at.n-headerSize)}
	err = decode(body, func(op Op) error {
		m.state.set(op)
		return nil
	})
	if err == nil && !m.state.fits(0, 0) {
		err = errTooMuch
	}
	if body.err != nil {
		return fmt.Errorf("read %s: %w", copyNames[at.copy], body.err)
	}
	if err != nil {
		return errs.New(errs.Damaged, "%s at byte %d: %w", copyNames[at.copy], at.off, err)
	}

	m.state.seq = at.seq

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
