package object

import "github.com/amberfs/amberfs/cas"

// A Pack is an object that is being put together.
type Pack struct {
	Bytes   []byte
	Entries []Entry // Object is not set
}

// Add appends a record.
func (p *Pack) Add(h cas.Hash, s cas.Stored) {
	e := Entry{Offset: uint32(len(p.Bytes)), Stored: uint32(len(s.Bytes)), Plain: uint32(s.Plain), Kind: s.Kind, Flags: s.Flags}
	copy(e.Prefix[:], h[:])
	p.Entries = append(p.Entries, e)
	p.Bytes = append(p.Bytes, s.Bytes...)
}

// Append puts the records of another pack behind those that are there.
func (p *Pack) Append(q *Pack) {
	for _, e := range q.Entries {
		e.Offset += uint32(len(p.Bytes))
		p.Entries = append(p.Entries, e)
	}
	p.Bytes = append(p.Bytes, q.Bytes...)
}

// EncodeIndex appends an index of entries to the pack and returns where it lies.
func (p *Pack) EncodeIndex(entries []Entry) (Section, *Index) {
	var tree, data []Entry
	for _, e := range entries {
		if e.Kind == cas.KindTree {
			tree = append(tree, e)
		} else {
			data = append(data, e)
		}
	}
	t, d := NewTable(tree), NewTable(data)
	s := Section{Offset: int64(len(p.Bytes)), Tree: int64(t.Len()), Data: int64(d.Len())}
	p.Bytes = append(append(p.Bytes, t.raw...), d.raw...)
	return s, &Index{tree: []Table{t}, data: []Table{d}}
}
