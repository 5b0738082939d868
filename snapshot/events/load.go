package events

import "fmt"

// Load reads the logs in the directory. Then it adds to them the events that were recorded before the call, and that
// waited in memory. After an error it can be called again.
func (l *Log) Load() error {
	l.writer.Lock()
	defer l.writer.Unlock()

	views, err := l.read()
	if err != nil {
		return err
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	for id, v := range views {
		if known := l.mu.views[id]; known != nil { // the view exists because a Reader uses it
			*known = *v
		} else {
			l.mu.views[id] = v
		}
	}

	l.mu.loaded = true
	early := l.mu.early
	l.mu.early = nil
	for _, e := range early {
		v := l.view(e.Workspace)
		if e.Action == Captured {
			l.mu.closeAll(v)
		}

		l.mu.add(v, &entry{Event: e})
	}

	l.startTimer()

	return nil
}

// read opens the logs of all workspaces in the directory.
func (l *Log) read() (map[uint32]*view, error) {
	if err := l.opts.FS.MkdirAll(l.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}

	infos, err := l.opts.FS.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}

	views := make(map[uint32]*view)

	for _, i := range infos {
		id, ok := parseView(i.Name)
		if !ok || !i.IsDir {
			continue
		}

		v := l.newView(id)
		if err := v.open(); err != nil {
			return nil, fmt.Errorf("open the event log of workspace %d: %w", id, err)
		}

		views[id] = v
	}

	return views, nil
}

// keepEarly keeps an event in memory until Load. It keeps at most maxWaiting events; further events are lost. The
// caller holds mu.
func (l *Log) keepEarly(e Event) {
	if len(l.mu.early) < maxWaiting {
		l.mu.early = append(l.mu.early, e)
	}
}
