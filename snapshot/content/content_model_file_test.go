package content

import "bytes"

// fileModel is a file as plain bytes, each with what kind of place it is at.
type fileModel struct {
	data []byte
	kind []byte // 0 hole, 1 unwritten, 2 data
}

func (m *fileModel) clone() *fileModel {
	return &fileModel{bytes.Clone(m.data), bytes.Clone(m.kind)}
}

func (m *fileModel) size() int64 { return int64(len(m.data)) }

func (m *fileModel) truncate(n int64) {
	for m.size() < n {
		k := n - m.size()
		m.data = append(m.data, make([]byte, k)...)
		m.kind = append(m.kind, make([]byte, k)...)
	}
	m.data, m.kind = m.data[:n], m.kind[:n]
}

func (m *fileModel) grow(n int64) { m.truncate(max(n, m.size())) }

func (m *fileModel) write(off int64, p []byte) {
	m.grow(off + int64(len(p)))
	copy(m.data[off:], p)
	m.fill(off, off+int64(len(p)), 2)
}

// The model uses the bytes package where it can: loops are slow with -race.

func (m *fileModel) fill(off, end int64, kind byte) {
	if off >= end {
		return
	}
	if kind < 2 {
		clear(m.data[off:end])
	}
	k := m.kind[off:end]
	k[0] = kind
	for n := 1; n < len(k); n *= 2 {
		copy(k[n:], k[:n])
	}
}

// run returns where the run of bytes of one kind that off is in ends.
func (m *fileModel) run(off int64) int64 {
	rest := m.kind[off:]
	return m.size() - int64(len(bytes.TrimLeft(rest, string(rest[:1]))))
}

func (m *fileModel) allocate(off, end int64) {
	for off < end {
		next := min(m.run(off), end)
		if m.kind[off] == 0 {
			m.fill(off, next, 1)
		}
		off = next
	}
}

func (m *fileModel) allocated() int64 { return m.size() - int64(bytes.Count(m.kind, []byte{0})) }
