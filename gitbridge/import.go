package gitbridge

import (
	"math"
	"time"
)

// ImportOptions hold for every source.
type ImportOptions struct {
	// Owner replaces the owners that the source has. Git has none: without
	// Owner its files belong to the user of this process.
	Owner *Owner
	// Skip is told of files that cannot be read or carried, and the import goes
	// on without them. Nil makes that an error.
	Skip   func(path string, reason error)
	Limits Limits
	// Umask takes permissions away from what git brings, as for git checkout.
	Umask    uint32
	Progress func(Progress) // called now and then, nil for never
}

// Owner is a user and a group.
type Owner struct{ UID, GID uint32 }

func (o ImportOptions) own(m Meta) Meta {
	if o.Owner != nil {
		m.UID, m.GID = o.Owner.UID, o.Owner.GID
	}
	return m
}

// skip reports a file that is left out, or returns why it cannot be.
func (o ImportOptions) skip(path string, reason error) error {
	if o.Skip == nil {
		return reason
	}
	o.Skip(path, reason)
	return nil
}

// unixNano is t, or the nearest time that can be counted in nanoseconds.
func unixNano(t time.Time) int64 {
	const second = int64(time.Second)
	switch s := t.Unix(); {
	case s > math.MaxInt64/second-1:
		return math.MaxInt64
	case s < math.MinInt64/second+1:
		return math.MinInt64
	}
	return t.UnixNano()
}
