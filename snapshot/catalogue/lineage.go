package catalogue

import "slices"

// MaxLineage is how many ids a lineage has.
const MaxLineage = 100

// Lineage returns the ids of the states that a fork began with and was in, the newest last: of its
// snapshots with a smaller number than before, 0 for all. A snapshot without an id was never pushed.
// What was pulled counts if it was restored.
func (c *Catalogue) Lineage(w *Workspace, before uint64) []string {
	var ids []string
	if base, ok := c.Snapshots[w.Base]; ok {
		ids = append(slices.Clone(base.Lineage), base.ID)
	}
	restored := map[string]bool{w.Head: true}
	for _, sn := range w.Snapshots.All() {
		restored[sn.Parent] = true
	}
	for _, sn := range w.Snapshots.All() {
		if (before == 0 || sn.Seq < before) && (sn.Past() || restored[sn.Name]) {
			ids = append(append(ids, sn.Lineage...), sn.ID)
		}
	}
	last := map[string]int{"": -1}
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

// Newest returns the name of the newest snapshot of a workspace, or its base, that has one of some
// ids; "" if none has.
func (c *Catalogue) Newest(w *Workspace, ids []string) string {
	if sn := w.Snapshots.Last(func(sn *Snapshot) bool { return sn.ID != "" && slices.Contains(ids, sn.ID) }); sn != nil {
		return sn.Name
	}
	if base, ok := c.Snapshots[w.Base]; ok && slices.Contains(ids, base.ID) {
		return base.Name
	}
	return ""
}
