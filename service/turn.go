package service

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/snapshot/info"
)

// turnPrefix is the beginning of the name of a turn's snapshot. The turn's number follows.
const turnPrefix = "turn-"

// TurnName returns the name of the snapshot of an agent's turn.
func TurnName(turn uint64) string { return turnPrefix + strconv.FormatUint(turn, 10) }

// TurnNumber returns the number of a turn, 0 if its snapshot was renamed.
func TurnNumber(i info.Info) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(i.Name, turnPrefix), 10, 32) // 0 after an error
	return n
}

// turnRows returns a row for each snapshot of an agent's turn.
func turnRows(l *Snapshots) (rows [][]string) {
	for _, i := range l.Snapshots {
		if n := TurnNumber(i); n > 0 {
			rows = append(rows, []string{
				strconv.FormatUint(n, 10), SnapshotRow(i)[2], SessionActor(i.Labels["agent"], i.Labels["session"]),
				cmp.Or(OneLine(i.Labels["message"]), "-"), OneLine(i.Message),
			})
		}
	}
	return rows
}

// SessionActor returns the name of the actor of an agent's session.
func SessionActor(agent, session string) string {
	clean := func(s string) string {
		s = strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' {
				return r
			}
			return '_'
		}, s)
		return strings.TrimLeft(s[:min(len(s), 60)], "-")
	}
	if session = clean(session); session == "" {
		return clean(agent)
	}

	return clean(agent) + "/" + session
}
