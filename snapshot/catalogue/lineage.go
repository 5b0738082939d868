package catalogue

import "slices"

// MaxLineage is the largest number of ids in a lineage.
const MaxLineage = 100

// Lineage returns the ids of the past states of a workspace, the newest last, each once. These are the ids
// of the base and of the base's lineage, and the ids of the workspace's snapshots with a sequence number
// below beforeSeq (0: all snapshots). A pulled snapshot is a past state only if it was restored.
// Lineage leaves out snapshots without an id, because they were never pushed.
func (c *Catalogue) Lineage(w *Workspace, beforeSeq uint64) []string {
	var ids []string
	if base := c.Snapshots.At(w.Base); base != nil {
		ids = append(slices.Clone(base.Lineage), base.ID)
	}

	restored := map[string]bool{w.Head: true}
	for _, sn := range w.Snapshots.All() {
		restored[sn.Parent] = true
	}

	for _, sn := range w.Snapshots.All() {
		if (beforeSeq == 0 || sn.Seq < beforeSeq) && (sn.IsPastState() || restored[sn.Name]) {
			ids = append(append(ids, sn.Lineage...), sn.ID)
		}
	}

	last := map[string]int{"": -1} // id → its last index
	for i, id := range ids {
		if id != "" {
			last[id] = i
		}
	}

	var out []string
	for i, id := range ids {
		if last[id] == i {
			out = append(out, id)
		}
	}

	return out[max(0, len(out)-MaxLineage):]
}

// NewestWithID returns the name of the newest snapshot of a workspace, including its base, whose id is in ids.
// It returns "" if no snapshot has such an id.
func (c *Catalogue) NewestWithID(w *Workspace, ids []string) string {
	if sn := w.Snapshots.newestMatching(rowIDMatcher(ids...), func(sn *Snapshot) bool { return sn.ID != "" && slices.Contains(ids, sn.ID) }); sn != nil {
		return sn.Name
	}
	if base := c.Snapshots.At(w.Base); base != nil && slices.Contains(ids, base.ID) {
		return base.Name
	}

	return ""
}
