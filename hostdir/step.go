package hostdir

import "github.com/amberfs/amberfs/snapshot/tree"

// A step is one path that differs: what is to be done there, and how far that is.
//
// The planner decides the action, and the writer never changes it. The writer promises: if it is killed
// at any moment, each path is as before or as it is to be, nothing that a person made is gone, and a
// second run does the rest. So everything is written under temporary names, and a rename places it.
// Until the first path is placed, nothing has changed. The name of a temporary file tells the next run
// whether to remove it (see replacedName), and a file that is not the planned one is never replaced
// (see put). One exception: a file that only its owner could replace is overwritten (write_over.go), and
// each of its bytes is then the old or the new one.
//
//	action      planned → staged                      → placed            → done
//	keep        –                                                           its time is set
//	attributes  the right to set them was looked for                        they are set
//	write       the file is there by a temporary      it has its name     what it shares with other
//	            name, or how says what is in its place                    names is set, too
//	makeDir     as a file; its entries are made in it it has its name       its time is set
//	remove      the right to remove was looked for                          it is gone
//
// No step goes back. An error or an end before placed discards what was staged.
type step struct {
	change tree.Change
	seen   hostEntry // what the directory had at the path when it was planned
	action action
	file   *hostFile // nil for a directory, and for no file

	state state
	how   placing
	temp  string     // the temporary name of what was staged, "" for none
	from  *tree.Path // of moveName: where the file is
	// source is the step of the path that from was first.
	source *step
}

// An action is what is done at one path.
type action uint8

const (
	keep       action = iota // it is as it is to be, but for its time
	attributes               // a file or directory that stays gets others
	write                    // a file is written anew
	makeDir
	remove
)

// A state is how far a step is.
type state uint8

const (
	planned state = iota
	staged
	placed // the path is as it is to be, but for what files have in common
	done
)

// A placing is how a file gets to its path. It is decided when it is staged.
type placing uint8

const (
	rename    placing = iota // from its temporary name
	overwrite                // the bytes of the file there are replaced
	moveName                 // a name that the file loses is renamed
	stays                    // it is there: another name of it was overwritten
)

// was is the version of the directory, nil for a new file. Attributes that it shares with change.After stay.
func (s *step) was() *tree.Inode {
	if s.file != nil {
		return s.file.was
	}
	return s.change.Before
}
