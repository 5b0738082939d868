package hostdir

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// A DirGit knows git, of which the directory knows nothing.
type Git interface {
	// Linked returns the directory that the entry `.git` of a directory names; nil if that is in
	// root, or no git directory.
	Linked(dir, root string) *Linked
	// Ignored reports which paths a file of patterns names, as .gitignore does. Paths of directories
	// end with "/". Without the file it names none.
	Ignored(ctx context.Context, file string, paths []string) ([]bool, error)
	// Plan plans what becomes of the git directories of a directory.
	Plan(ctx context.Context, in RepositorySides) (Repositories, error)
}

// RepositorySides are what the repositories of a directory are planned from.
type RepositorySides struct {
	*ApplyOptions
	Changes []tree.Change // from Base to Now
	Dir     Receiver
}

// Rule is the rule for a path in conflict.
func (o *ApplyOptions) Rule(name string) threeway.Rule {
	if rule := o.ChoiceOf(name).Conflicts; rule != threeway.RefuseConflicts {
		return rule
	}
	return o.Conflicts
}

func (o *ApplyOptions) ChoiceOf(name string) Choice {
	if o.Choose == nil {
		return Choice{}
	}
	return o.Choose(name)
}

// Repositories are what an apply does to the git directories of a directory.
type Repositories struct {
	Changes   []tree.Change // those that are ordinary files
	Take      []string      // files that get what the workspace has, whatever the base has
	Merged    map[string]MergedFile
	Said      []GitChange
	Conflicts []string // paths, not decided

	AddObjects func() error                      // changes no ref
	Commit     func() ([]stream.Omission, error) // after the files
	Close      func()
}

func (r Repositories) close() {
	if r.Close != nil {
		r.Close()
	}
}

// A MergedFile is what a merge of git makes of the versions of a file.
type MergedFile struct {
	Data []byte // nil: it is removed
	Exec bool
}

// A GitChange is what an apply does to one repository, in git's words.
type GitChange struct {
	Dir     string   `json:"dir"`              // the git directory, relative
	Target  string   `json:"target,omitempty"` // where it is, if that is outside of the directory
	Lines   []string `json:"lines,omitempty"`
	Commits []string `json:"commits,omitempty"` // subjects of the commits that come, some of each branch
	Off     []string `json:"off,omitempty"`     // subjects of commits that no branch has afterwards
	// Diverged are the branches that both sides moved.
	Diverged []*threeway.Diverged `json:"diverged,omitempty"`
}

// Path is the path of the directory, without symbolic links.
func (r Receiver) Path() string { return r.pl.host.path }

// Resolved returns where a directory in it is, without following symbolic links.
func (r Receiver) Resolved(p *tree.Path) (string, error) {
	fd, err := r.pl.host.walk(p)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// IsFile reports whether there is something other than a directory at a path.
func (r Receiver) IsFile(p *tree.Path) bool {
	at, err := r.pl.host.look(p)
	return err == nil && at.exists && !at.isDir()
}

// IsBase reports whether the directory has the file of the base at a path, or as the base none.
func (r Receiver) IsBase(name string) bool {
	p, err := tree.ParsePath(name)
	if err != nil {
		return false
	}
	at, err := r.pl.host.look(p)
	was, berr := r.pl.o.Base.At(r.pl.o.Source, name)
	if err != nil || berr != nil || was == nil || !at.exists {
		return err == nil && berr == nil && was == nil && !at.exists
	}
	return at.st.Mode == was.Mode && at.st.Size == was.Size() && at.st.Mtim.Nano() == was.Mtime
}

// planGit takes the changes of git directories out of those of files.
func (pl *planner) planGit(changes []tree.Change) ([]tree.Change, error) {
	if pl.o.Git == nil {
		return changes, nil
	}
	var err error
	if pl.repos, err = pl.o.Git.Plan(pl.ctx, RepositorySides{&pl.o, changes, Receiver{pl}}); err != nil {
		return nil, err
	}
	pl.res.Git, pl.res.Conflicts = pl.repos.Said, pl.repos.Conflicts
	pl.refused = len(pl.repos.Conflicts) > 0
	return pl.takeFiles(pl.repos.Changes)
}

// takeFiles adds to the changes the files that become what the workspace has, or what a merge of git has
// made, with directories above them that are not there.
func (pl *planner) takeFiles(changes []tree.Change) ([]tree.Change, error) {
	known := make(map[string]bool)
	for _, c := range changes {
		known[c.Path.String()] = true
	}
	for _, name := range slices.Concat(pl.repos.Take, slices.Collect(maps.Keys(pl.repos.Merged))) {
		p, err := tree.ParsePath(name)
		if err != nil {
			return nil, err
		}
		for ; p != nil && !pl.whole[p.String()]; p = p.Dir {
			c, err := pl.changeTo(p)
			if err != nil {
				return nil, err
			}
			file, isMerged := pl.repos.Merged[p.String()]
			if isMerged {
				if c.After, err = pl.mergedFile(p, file, c.After); err != nil {
					return nil, err
				}
				changes = slices.DeleteFunc(changes, func(x tree.Change) bool { return x.Path.String() == p.String() })
			} else if c.Before == nil && c.After == nil || (c.After == nil || c.After.IsDir()) && pl.hasDir(p) {
				break
			}
			if pl.whole[p.String()] = true; isMerged || !known[p.String()] {
				changes = append(changes, c)
			}
		}
	}
	return threeway.SortChanges(changes), nil
}

// mergedFile returns the file that a merge makes at a path: with the attributes of the directory's file
// or, for a new file, with the owner of the directory above. there is the workspace's file, nil for none.
func (pl *planner) mergedFile(p *tree.Path, file MergedFile, there *tree.Inode) (*tree.Inode, error) {
	if file.Data == nil {
		return nil, nil
	}
	n := &tree.Inode{Ino: math.MaxUint64 - uint64(len(pl.whole)), Mode: unix.S_IFREG | 0o644, Nlink: 1, Mtime: time.Now().UnixNano()}
	if there != nil {
		n.Ino = there.Ino
	}

	at, err := pl.host.look(p)
	if err != nil {
		return nil, err
	}
	if isFile := at.exists && at.st.Mode&unix.S_IFMT == unix.S_IFREG; isFile {
		n.Mode, n.UID, n.GID = at.st.Mode, at.st.Uid, at.st.Gid
		if n.Xattrs, err = pl.host.xattrs(p); err != nil && !errors.Is(err, unix.EACCES) {
			return nil, err
		}
	} else if above, err := pl.host.look(p.Dir); err == nil && above.exists {
		n.UID, n.GID = above.st.Uid, above.st.Gid
	}
	n.Mode = threeway.Executable(n.Mode, file.Exec)
	return n, nil
}

// hasDir reports whether the directory has a directory at a path.
func (pl *planner) hasDir(p *tree.Path) bool {
	at, err := pl.host.look(p)
	return err == nil && at.isDir()
}

// changeTo is the change of a path from what the base has, or the directory alone, to what the
// workspace has.
func (pl *planner) changeTo(p *tree.Path) (c tree.Change, err error) {
	c = tree.Change{Path: p, What: tree.Data}
	if c.Before, err = pl.o.Base.At(pl.o.Source, p.String()); err != nil {
		return c, err
	}
	if c.After, err = pl.o.Now.At(pl.o.Source, p.String()); err != nil || c.Before != nil || c.After != nil {
		return c, err
	}
	at, err := pl.host.look(p)
	if at.exists {
		c.Before = &tree.Inode{Ino: at.st.Ino, Mode: at.st.Mode, Nlink: 1}
	}
	return c, err
}
