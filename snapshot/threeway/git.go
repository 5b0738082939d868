package threeway

import (
	"context"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// Sides are the input of a merge of git directories: the changes of an interval, and the states before and
// after them.
type Sides struct {
	Source             *tree.Source
	Base, Ours, Theirs *tree.State
	Changes            []tree.Change // from Base to Theirs, in the order of tree.Diff
	Rule               func(path string) Rule
	GitOptions
}

// GitOptions are options of a merge of git directories.
type GitOptions struct {
	TheirName      string // the name of the side theirs, for messages
	FromDirectory  bool   // theirs is a directory of the host, which a client of the socket has read
	DryRun         bool
	MergeBranch    bool // merge a branch that is checked out and that both sides moved
	RefuseDiverged bool // a branch that both sides moved is in conflict, unless Sides.Rule decides it
}

// A GitOutcome is the result of a merge of git directories.
type GitOutcome struct {
	Changes      []tree.Change // the changes of Sides to files outside of git directories
	TakenPaths   []string      // files that get the version of theirs, even if ours changed them
	Edits        []Edit        // changes of files in git directories, and of files that git merged
	Repositories []Repository
	// Conflicts are the paths of files and refs in conflict for which Sides.Rule has no decision.
	Conflicts []string
	Close     func() // the caller calls Close after the edits were made
}

// An Edit replaces the contents of a file of the present tree, or removes the file.
type Edit struct {
	Path     string
	Mode     uint32                        // 0: the present mode or, for a new file, a mode like that of its directory
	ReadOnly bool                          // a new file has no permission to write
	Like     *tree.Inode                   // the owner and extended attributes of a new file; nil: the owner of its directory
	Open     func() (io.ReadCloser, error) // nil: the file is removed
}

// A Repository describes the changes of one git directory in the words of git.
type Repository struct {
	Dir            string      `json:"dir" jsonschema:"the git directory, relative"`
	Target         string      `json:"target,omitempty" jsonschema:"where it is, if that is outside of the directory"`
	Lines          []string    `json:"lines,omitempty" jsonschema:"what happened"`
	Commits        []string    `json:"commits,omitempty" jsonschema:"subjects of commits that came, some of each branch"`
	DroppedCommits []string    `json:"off,omitempty" jsonschema:"subjects of commits that no branch has afterwards"`
	Diverged       []*Diverged `json:"diverged,omitempty" jsonschema:"the branches that both sides moved"`
}

// A Diverged is a branch of git with different new commits on both sides.
type Diverged struct {
	Branch string `json:"branch"`
	Head   bool   `json:"head"`   // the branch is checked out
	Parked string `json:"parked"` // the branch that is made for their commits, or for ours if theirs are preferred
	// Ahead is the number of commits that only their side has, and Behind the number of commits that only the
	// receiving side has. Theirs and Ours are the subjects of some of these commits.
	Ahead  int      `json:"ahead"`
	Behind int      `json:"behind"`
	Theirs []string `json:"theirs"`
	Ours   []string `json:"ours"`
	// Conflicts are the paths that a merge leaves in conflict, relative to the working tree or, in an apply, to
	// the directory. NoMerge is the reason why git cannot merge.
	Conflicts []string `json:"conflicts,omitempty"`
	NoMerge   string   `json:"no_merge,omitempty"`
}

// ExecutableMode returns a mode with the permission to execute for everybody who may read, or without any such
// permission.
func ExecutableMode(mode uint32, exec bool) uint32 {
	if !exec {
		return mode &^ 0o111
	}
	return mode | mode&0o444>>2
}

// A GitMerger merges the git directories of both sides. The merge of files does not look into these directories.
type GitMerger func(ctx context.Context, s Sides) (GitOutcome, error)

// SplitGitPath splits a path below a .git directory into that directory and the rest. ok is false if the path is
// not below a .git directory.
func SplitGitPath(p string) (repo, rel string, ok bool) {
	if rel, ok = strings.CutPrefix(p, ".git/"); ok {
		return ".git", rel, true
	}
	before, rel, ok := strings.Cut(p, "/.git/")
	return before + "/.git", rel, ok
}

// PlanEdits plans edits of files, also of files in conflict.
func (p *Plan) PlanEdits(ctx context.Context, edits []Edit) error {
	for _, e := range edits {
		if p.keepsOurs(e.Path) {
			continue
		}
		f, err := p.files.fileAt(e.Path)
		if err != nil {
			return err
		}

		if e.Open == nil {
			p.files.setFile(e.Path, nil)
			continue
		}

		n, err := p.newFileIn(path.Dir(e.Path))
		if err != nil {
			return err
		}

		if e.Like != nil {
			n.UID, n.GID, n.Xattrs = e.Like.UID, e.Like.GID, e.Like.Xattrs
		}
		if e.ReadOnly {
			n.Mode &^= 0o222
		}
		if f != nil && f.node.IsRegular() {
			n = *f.node
		}
		if e.Mode != 0 {
			n.Mode = e.Mode
		}

		in, err := e.Open()
		if err != nil {
			return err
		}

		err = p.setText(ctx, &n, in)
		in.Close()
		if err != nil {
			return err
		}

		p.files.setFile(e.Path, &file{node: &n, view: p.View, theirIno: n.Ino})
	}
	return nil
}

// newFileIn returns a new file for a directory, with its owner and permissions.
func (p *Plan) newFileIn(dir string) (tree.Inode, error) {
	d, err := p.makeDirs(dir)
	d.Mode, d.Nlink = unix.S_IFREG|d.Mode&0o666, 1
	return d, err
}

// makeDirs plans the missing directories down to a path, each like the one above it, and returns the last.
func (p *Plan) makeDirs(dir string) (tree.Inode, error) {
	f, err := p.files.fileAt(dir)
	if err != nil {
		return tree.Inode{}, err
	}
	if f != nil && f.node.IsDir() {
		return tree.Inode{Ino: f.node.Ino, Mode: f.node.Mode, UID: f.node.UID, GID: f.node.GID, Nlink: 2, Mtime: p.Now, Atime: p.Now, Ctime: p.Now, Btime: p.Now}, nil
	}

	d, err := p.makeDirs(path.Dir(dir))
	if err == nil {
		node := d
		p.files.setFile(dir, &file{node: &node, view: p.View, theirIno: d.Ino})
	}

	return d, err
}
