package events

import "fmt"

// Load reads the logs in the directory. Then it adds the events that were recorded before Load and waited in
// memory. After an error it can be called again.
func (l *Log) Load() error {
	l.writer.Lock()
	defer l.writer.Unlock()

	views, err := l.readLogs()
	if err != nil {
		return err
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	for id, v := range views {
		if known := l.mu.logs[id]; known != nil { // the view exists because a Reader uses it
			*known = *v
		} else {
			l.mu.logs[id] = v
		}
	}

	l.mu.loaded = true
	early := l.mu.earlyEvents
	l.mu.earlyEvents = nil
	for _, e := range early {
		v := l.workspaceLog(e.Workspace)
		if e.Action == Captured {
			l.mu.closeWorkspaceEvents(v)
		}

		l.mu.add(v, &pendingEvent{Event: e})
	}

	l.startTimer()

	return nil
}

// readLogs opens the logs of all workspaces in the directory.
func (l *Log) readLogs() (map[uint32]*workspaceLog, error) {
	if err := l.opts.FS.MkdirAll(l.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}

	infos, err := l.opts.FS.ReadDir(l.dir)
	if err != nil {
		return nil, fmt.Errorf("open the event log: %w", err)
	}

	views := make(map[uint32]*workspaceLog)

	for _, i := range infos {
		id, ok := parseViewDirName(i.Name)
		if !ok || !i.IsDir {
			continue
		}

		v := l.newWorkspaceLog(id)
		if err := v.open(); err != nil {
			return nil, fmt.Errorf("open the event log of workspace %d: %w", id, err)
		}

		views[id] = v
	}

	return views, nil
}

// keepEarly keeps an event in memory until Load. It keeps at most maxPendingEvents events; further events are lost.
// The caller holds mu.
func (l *Log) keepEarly(e Event) {
	if len(l.mu.earlyEvents) < maxPendingEvents {
		l.mu.earlyEvents = append(l.mu.earlyEvents, e)
	}
}
