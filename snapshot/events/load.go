package events

import "fmt"

// Load reads the files, and records what was recorded before. If it fails it can be called again.
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
		if known := l.mu.views[id]; known != nil { // a Reader has it
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
			l.mu.endAll(v)
		}
		l.mu.add(v, &entry{Event: e})
	}
	l.arm()
	return nil
}

// read finds the logs of all workspaces.
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
		if !ok || !i.Dir {
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

// keep keeps an event until Load. Beyond maxWaiting events are lost. mu is held.
func (l *Log) keep(e Event) {
	if len(l.mu.early) < maxWaiting {
		l.mu.early = append(l.mu.early, e)
	}
}
