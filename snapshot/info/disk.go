package info

// Disk is the space in the packs that a deletion of snapshots and forks would free. It is the total size of the
// records of the objects. A gc frees whole blocks, so it may free more or less.
type Disk struct {
	Snapshots []UsedBy `json:"snapshots"`
	Forks     []UsedBy `json:"forks"`
	// Together is the space that a deletion of all named snapshots would free, or of all snapshots if no snapshot
	// was named. It may be more than the sum of Snapshots, because it includes objects that several of them
	// share.
	Together int64 `json:"together"`
	// Stored is the size of all objects in the packs.
	Stored int64 `json:"stored"`
}

// UsedBy is the space that a deletion of one snapshot or fork would free.
type UsedBy struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Files and Size are the number and the total size of all files of the snapshot or fork, also of
	// files that it shares with others.
	Files int64 `json:"files"`
	Size  int64 `json:"size"`
}
