package manifest

import (
	"fmt"
	"io"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// load puts in force what the two copies have together: the first record of one of them,
// and behind it each commit from either. It reports whether there was anything.
func (m *Manifest) load(found [2]*reading) (usable bool, err error) {
	m.state.entries = map[string][]byte{}
	chain, last := chainOf(found)
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
			reach, last, found[0].damaged(last), found[1].damaged(last), reach)
	}
	for _, at := range chain {
		if err := m.apply(at); err != nil {
			return false, err
		}
	}
	if reach < last { // no number is used twice
		m.state.seq, m.aside = last+1, true
	}
	return true, nil
}

// chainOf returns the longest run of records that leads to a state, and the number of the
// last record that there was.
func chainOf(found [2]*reading) (chain []place, last uint64) {
	commits := map[uint64]place{}
	for _, c := range found {
		last = max(last, c.least)
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
		run := []place{c.records[0]}
		for at, ok := commits[c.records[0].seq+1]; ok; at, ok = commits[at.seq+1] {
			run = append(run, at)
		}
		if len(chain) == 0 || run[len(run)-1].seq > chain[len(chain)-1].seq {
			chain = run
		}
	}
	return chain, last
}

// apply puts a record in force whose checksum was right.
func (m *Manifest) apply(at place) error {
	f, err := vfs.Open(m.fs, m.path(names[at.copy]))
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
		return fmt.Errorf("read %s: %w", names[at.copy], body.err)
	}
	if err != nil {
		return errs.New(errs.Damaged, "%s at byte %d: %w", names[at.copy], at.off, err)
	}
	m.state.seq = at.seq
	return nil
}

// A bodyReader keeps the error of the disk.
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
