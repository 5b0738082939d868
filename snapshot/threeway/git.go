package threeway

import "strings"

// InGit splits a path below a .git directory into that directory and the rest.
func InGit(p string) (repo, rel string, ok bool) {
	if rel, ok = strings.CutPrefix(p, ".git/"); ok {
		return ".git", rel, true
	}
	before, rel, ok := strings.Cut(p, "/.git/")
	return before + "/.git", rel, ok
}

// A GitFile is how a merge treats a file of a repository.
type GitFile int

const (
	AnyFile  GitFile = iota
	IndexOf          // the index: git finds out itself what changed
	Reflog           // a log: lines are added to it
	OwnNotes         // of each side alone: messages, and objects, which are named by their hash
	RefOf            // a branch, a tag, or HEAD
)

// KindInGit classifies a path relative to the .git directory.
func KindInGit(rel string) GitFile {
	switch {
	case rel == "index":
		return IndexOf
	case strings.HasPrefix(rel, "logs/"):
		return Reflog
	case rel == "HEAD", strings.HasPrefix(rel, "refs/"):
		return RefOf
	case strings.HasPrefix(rel, "objects/"), rel == "COMMIT_EDITMSG", rel == "ORIG_HEAD", rel == "FETCH_HEAD", rel == "gc.log":
		return OwnNotes
	}
	return AnyFile
}

// takeIndexes takes the indexes in conflict from theirs if the branches are taken from
// there: an index belongs to the commit that HEAD names.
func (p *Plan) takeIndexes() error {
	for at := range p.planned {
		repo, rel, ok := InGit(at)
		if !ok || KindInGit(rel) != RefOf && rel != "packed-refs" {
			continue
		}
		if theirs := p.indexes[repo+"/index"]; theirs != nil {
			if err := theirs(); err != nil {
				return err
			}
			delete(p.indexes, repo+"/index")
		}
	}
	return nil
}
