package info

// Disk is what would be given back, in bytes of packs: the records of objects. What a
// gc frees is whole blocks.
type Disk struct {
	Snapshots []UsedBy `json:"snapshots"`
	Forks     []UsedBy `json:"forks"`
	// Together is what would be given back if all snapshots that were named, or
	// all there are, were deleted at once: more than the sum, as what only they
	// share goes too.
	Together int64 `json:"together"`
	// Stored is all that the packs hold.
	Stored int64 `json:"stored"`
}

// UsedBy is what one snapshot or fork alone keeps.
type UsedBy struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Files and Size are what it holds, shared or not.
	Files int64 `json:"files"`
	Size  int64 `json:"size"`
}
