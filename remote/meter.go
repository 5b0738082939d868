package remote

import "sync"

// A meter adds up what several goroutines have done.
type meter struct {
	report func(done, total int64)
	total  int64

	mu   sync.Mutex
	done int64
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	if m.report != nil {
		m.report(m.done, m.total)
	}
}
