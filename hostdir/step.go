package hostdir

import "github.com/amberfs/amberfs/snapshot/tree"

// A step is the action for one path, and its state.
//
// The planner decides the action, and the writer never changes it. The writer may be killed at any moment. It
// promises that each path then has its old or its new version, that all files that exist only in the directory still
// exist, and that a second apply completes the change. For this purpose, files are written under temporary names, and a
// rename gives each its final name. Until the first rename, the directory has not changed. The temporary name
// tells the next apply whether to remove the file (see replacedName). A file that changed since it was planned is
// never replaced (see placeStaged). There is one exception: a file that only its owner could replace is overwritten
// (write_over.go). If the overwrite is interrupted, each byte is the old or the new one.
//
//	action            planned → staged                      → placed            → done
//	keep              –                                                           its time is set
//	changeAttributes  the right to set them was checked                           they are set
//	write             the file has a temporary name, or     it has its name     the attributes that its hard
//	                  needs none (see placement)                                links share are set, too
//	makeDir           as for a file, with its entries       it has its name     its time is set
//	moveDir           the right to rename was checked       it has its name
//	remove            the right to remove it was checked                          it is removed
//
// A state never returns to an earlier one. After an error before the state placed, the staged file is removed.
type step struct {
	change   tree.Change // from the directory's version to the planned one
	original hostEntry   // the directory's entry at the path when the step was planned
	action   action
	file     *hostFile // nil for a directory, and for a path that is removed

	state     state
	placement placement
	tempName  string     // the temporary name of the staged file, "" for none
	fromPath  *tree.Path // for moveName and moveDir: the present path of the file or directory
	// sourceStep is, for moveName and moveDir, the step of the path that the file or directory had at first.
	sourceStep *step
}

// An action is the kind of change of one path.
type action uint8

const (
	keep             action = iota // the path has its planned version, except for its time
	changeAttributes               // attributes of a file or directory are changed in place
	write                          // a file is created with its contents
	makeDir
	moveDir // another user's directory is renamed
	remove
)

// A state is the progress of a step.
type state uint8

const (
	planned state = iota
	staged
	placed // the path has its new version, except for attributes that its hard links share
	done
)

// A placement is the way in which a file gets its path. It is decided when the file is staged.
type placement uint8

const (
	renameStaged placement = iota // the file is renamed from its temporary name
	overwrite                     // the bytes of the file at the path are replaced
	moveName                      // another name of the file, which the plan removes, is renamed to the path
	inPlace                       // the file is at the path already: it was overwritten through another hard link
)

// dirVersion returns the directory's version of the file, nil for a new file. Attributes that are equal in dirVersion
// and in change.After are not set.
func (s *step) dirVersion() *tree.Inode {
	if s.file != nil {
		return s.file.before
	}
	return s.change.Before
}
