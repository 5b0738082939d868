package hostdir

import "github.com/amberfs/amberfs/snapshot/tree"

// A step is the action for one path, and how far it has come.
//
// The planner decides the action, and the writer never changes it. The writer promises: if it is killed
// at any moment, each path has its old or its new version, no file that only the directory has is lost, and a
// second apply does the rest. So files are written under temporary names, and a rename places each.
// Until the first path is placed, the directory has not changed. By the name of a temporary file, the next apply
// knows whether to remove it (see replacedName). A file that changed since it was planned is never replaced
// (see put). One exception: a file that only its owner could replace is overwritten (write_over.go), and
// each of its bytes is the old or the new one if that is interrupted.
//
//	action      planned → staged                      → placed            → done
//	keep        –                                                           its time is set
//	attributes  the right to set them was checked                           they are set
//	write       the file has a temporary name, or how it has its name     the attributes that it shares
//	            says how it gets its bytes                                with other names are set, too
//	makeDir     as for a file, with its entries       it has its name     its time is set
//	moveDir     the right to rename was checked       it has its name
//	remove      the right to remove it was checked                          it is removed
//
// A state is never left for an earlier one. After an error before placed, the staged file is removed.
type step struct {
	change tree.Change // from the directory's version to the planned one
	seen   hostEntry   // what the directory had at the path when it was planned
	action action
	file   *hostFile // nil for a directory, and for a path that is removed

	state state
	how   placement
	temp  string     // the temporary name of the staged file, "" for none
	from  *tree.Path // for moveName and moveDir: the present path of the file or directory
	// source is, for moveName, the step of the path that from was at first.
	source *step
}

// An action is the kind of change of one path.
type action uint8

const (
	keep       action = iota // the path has its planned version, except for its time
	attributes               // a file or directory that stays gets other attributes
	write                    // a file is written anew
	makeDir
	moveDir // another user's directory is renamed
	remove
)

// A state is how far a step has come.
type state uint8

const (
	planned state = iota
	staged
	placed // the path has its new version, except for attributes that it shares with other names
	done
)

// A placement is the way in which a file gets to its path. It is decided when the file is staged.
type placement uint8

const (
	rename    placement = iota // from its temporary name
	overwrite                  // the bytes of the file there are replaced
	moveName                   // a name that the file loses is renamed to it
	stays                      // the file is at the path already: another name of it was overwritten
)

// was returns the version of the directory, nil for a new file. Attributes that are equal in it and in change.After stay.
func (s *step) was() *tree.Inode {
	if s.file != nil {
		return s.file.was
	}
	return s.change.Before
}
