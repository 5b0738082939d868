package gitdir

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot/threeway"
)

// A refPlan is the plan for the refs and for HEAD.
type refPlan struct {
	sides
	merge         *Merge
	scratch       *scratchRepo
	updates       []refUpdate
	symrefs       map[string]string // new targets of symbolic refs, by name
	head          string            // the new value of HEAD, "" if HEAD stays
	prefersTheirs bool              // the branch of HEAD gets the value of theirs, although both sides moved it
	diverged      []*DivergedBranch
	tips          []string // ids of objects that the receiving side needs, in addition to the values of updates
	notes         []string // sentences about refs that stay as they are
	lacksObjects  bool     // the objects of refs of theirs are missing, so these refs are left out
}

// A refUpdate moves a ref from the object old to the object new. old is "" for a new ref, and new is "" for a
// removed one.
type refUpdate struct{ name, old, new string }

// decide plans the updates of all refs, and of HEAD.
func (p *refPlan) decide(ctx context.Context, files *filePlan) {
	for _, name := range keysOf(p.theirs.refs, p.base.refs) {
		if !IsPrivate(name) && name != stash {
			p.decideRef(ctx, name)
		}
	}

	p.decideStash(ctx, files)
	p.decideHead(ctx)
	p.limitHead(ctx)
}

// dropMissing removes the updates whose objects are missing.
func (p *refPlan) dropMissing(missing map[string]bool) {
	p.updates = slices.DeleteFunc(p.updates, func(u refUpdate) bool {
		if missing[u.new] {
			p.lacksObjects = true
			p.note("%s is left out: its objects are missing", u.name)
		}
		return missing[u.new]
	})
	if missing[p.head] {
		p.head = ""
	}
}

// decideRef plans the update of one ref, from its values in the base (b), ours (o) and theirs (t).
func (p *refPlan) decideRef(ctx context.Context, name string) {
	b, o, t := p.base.refs[name], p.ours.refs[name], p.theirs.refs[name]
	short, isBranch := strings.CutPrefix(name, branches)
	switch {
	case t == b || t == o:
	case strings.Contains(b+o+t, "ref: "):
		if o == b && t != "" {
			p.symrefs[name] = strings.TrimPrefix(t, "ref: ")
		}
	case t == "" && o == b && p.checkedOutElsewhere(name):
		p.note("%s stays: another working tree has it checked out", short)
	case o == b && (t == "" || p.merge.Undo && !(isBranch && p.checkedOutElsewhere(name))):
		p.setRef(name, o, t)
	case t == "" || p.merge.Undo:
		p.note("%s stays: it moved since", strings.TrimPrefix(name, "refs/"))
	case strings.HasPrefix(name, tags) && o+b != "":
		p.note("the tag %s stays as it is here", strings.TrimPrefix(name, tags))
	case isBranch && p.checkedOutElsewhere(name):
		if !p.scratch.contains(ctx, cmp.Or(o, t), t) || o == "" {
			p.park(ctx, short, t)
			p.note("another working tree has %s checked out", short)
		}

	case o == b && (!isBranch || b == "" || p.scratch.contains(ctx, t, b) || p.movedAwayFrom(name, b)):
		p.setRef(name, o, t)
	case o != "" && p.scratch.contains(ctx, o, t):
	case o != "" && p.scratch.contains(ctx, t, o) && (p.ours.head != "ref: "+name || b == "" || p.scratch.contains(ctx, o, b)):
		p.setRef(name, o, t)
	case isBranch && o != "" && p.merge.PreferTheirs(short):
		p.note("%s moved on both sides: it is theirs, and %s has what it was", short, p.park(ctx, short, o))
		p.setRef(name, o, t)
		p.prefersTheirs = p.prefersTheirs || p.ours.head == "ref: "+name
	case isBranch && o == "":
		p.note("%s is gone here: %s has the commits", short, p.park(ctx, short, t))
	case isBranch:
		p.diverged = append(p.diverged, &DivergedBranch{Diverged: threeway.Diverged{Branch: short, Parked: p.park(ctx, short, t)}, ourCommit: o, theirCommit: t})
	case strings.HasPrefix(name, remotes):
	default: // refs of git notes, and of other programs
		p.note("%s moved on both sides: it stays, and %s is the other one", name, p.parkRef(ctx, name, t))
	}
}

// parkRef makes a new ref for the value that ref, which is not a branch, has in theirs. It returns the name of
// the new ref.
func (p *refPlan) parkRef(ctx context.Context, ref, value string) string {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(ref, "refs/"), "/")
	first := "refs/" + kind + "/amberfs/" + refComponent(p.merge.Name) + "/" + rest
	return p.putAtFreeName(ctx, first, value)
}

// movedAwayFrom reports whether their side moved a branch away from a commit, for example by a reset or a rebase. If
// not, the branch never had the commit on their side.
func (p *refPlan) movedAwayFrom(name, from string) bool {
	for ref, id := range p.theirs.refs {
		if id == from && strings.HasPrefix(ref, parkedPrefix) {
			return false // an earlier merge has made a branch for the commit, see park
		}
	}
	return bytes.Contains(readOptional(p.merge.Theirs, "logs/"+name), []byte(from))
}

// checkedOutElsewhere reports whether another working tree of the receiving side has a branch checked out. It
// ignores a working tree whose state will be replaced by its state in theirs.
func (p *refPlan) checkedOutElsewhere(name string) bool {
	linked := p.merge.Ours.Dir != p.merge.Ours.Common
	for id, tree := range p.ours.worktrees {
		if tree.head == "ref: "+name && (linked && id != filepath.Base(p.merge.Ours.Dir) || !linked && !p.takesWorktree(id)) {
			return true
		}
	}
	if !linked || p.merge.Ours.setting("core.bare") == "true" {
		return false
	}

	text, err := readSmall(filepath.Join(p.merge.Ours.Common, "HEAD"))
	return err == nil && strings.TrimSpace(text) == "ref: "+name
}

// note adds a sentence to notes.
func (p *refPlan) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// setRef plans the update of a ref. old is the id of its present object, and to is the id of its new object.
func (p *refPlan) setRef(name, old, to string) {
	if i := p.indexOf(name); i >= 0 {
		p.updates[i].new = to // git accepts only one update of each ref
		return
	}
	p.updates = append(p.updates, refUpdate{name, old, to})
}

// indexOf returns the index of the update of a ref, -1 for none.
func (p *refPlan) indexOf(name string) int {
	return slices.IndexFunc(p.updates, func(u refUpdate) bool { return u.name == name })
}

// newValue returns the value of a ref after the updates.
func (p *refPlan) newValue(name string) string {
	if i := p.indexOf(name); i >= 0 {
		return p.updates[i].new
	}
	return p.ours.refs[name]
}

// parkedPrefix is the beginning of the names of branches that park makes.
const parkedPrefix = branches + "amberfs/"

// park makes a new branch for a commit that the branch called branch does not get. It returns the name of the
// new branch without refs/heads: amberfs/NAME/BRANCH, where NAME is Merge.Name and BRANCH is branch. If there
// is a branch amberfs or amberfs/NAME, the name has dashes instead of slashes.
func (p *refPlan) park(ctx context.Context, branch, commit string) string {
	first := parkedPrefix + refComponent(p.merge.Name) + "/" + branch
	if p.newValue(branches+"amberfs") != "" || p.newValue(parkedPrefix+refComponent(p.merge.Name)) != "" {
		first = branches + "amberfs-" + refComponent(p.merge.Name) + "-" + strings.ReplaceAll(branch, "/", "-")
	}
	return strings.TrimPrefix(p.putAtFreeName(ctx, first, commit), branches)
}

// putAtFreeName sets a ref to a commit, and returns the name of the ref: the wanted name. If a ref with the
// wanted name has commits that are not in the history of the commit, a number is appended to the name.
func (p *refPlan) putAtFreeName(ctx context.Context, wanted, value string) string {
	name := wanted

	for n := 2; ; n++ {
		old := p.newValue(name)
		if old == "" || p.scratch.contains(ctx, value, old) {
			if old != value {
				p.setRef(name, old, value)
			}
			return name
		}

		name = fmt.Sprintf("%s-%d", wanted, n)
	}
}

// refComponent turns any name into a valid component of the name of a ref.
func refComponent(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\/@{`, r) {
			return '-'
		}
		return r
	}, name)
	name = strings.ReplaceAll(name, "..", "-")
	return cmp.Or(strings.Trim(strings.TrimSuffix(name, ".lock"), ".-"), "other")
}

// parkBranches parks the branches of theirs, which is another repository than ours.
func (p *refPlan) parkBranches(ctx context.Context) {
	p.note("the git directory is another one there: this one stays as it is")
	ourIDs := p.refValues(false)
	for _, name := range slices.Sorted(maps.Keys(p.theirs.refs)) {
		id := p.theirs.refs[name]
		if short, ok := strings.CutPrefix(name, branches); ok && p.theirs.isID(id) && !slices.Contains(ourIDs, id) {
			p.note("%s has the commits of its %s", p.park(ctx, short, id), short)
			p.tips = append(p.tips, id)
		}
	}
}

// decideStash takes the stash of theirs, with its log, if the receiving side still has the stash of the base.
// Otherwise it parks each new stash of theirs.
func (p *refPlan) decideStash(ctx context.Context, files *filePlan) {
	b, o, t := p.base.refs[stash], p.ours.refs[stash], p.theirs.refs[stash]
	base, ours, theirs := readOptional(p.merge.Base, "logs/"+stash), readOptional(p.merge.Ours, "logs/"+stash), readOptional(p.merge.Theirs, "logs/"+stash)
	if b == t && bytes.Equal(base, theirs) || o == t {
		return
	}

	ids := p.loggedIDs(theirs)
	if !slices.Contains(ids, t) {
		ids = append(ids, t)
	}
	p.tips = append(p.tips, ids...)

	inBase := func(id string) bool { return id == b || bytes.Contains(base, []byte(id)) }
	// Stashes of theirs do not count as new ones of ours: a killed merge may have written the log of theirs
	// here.
	isOurs := func(id string) bool { return !inBase(id) && !slices.Contains(ids, id) }
	if o == b && !slices.ContainsFunc(p.loggedIDs(ours), isOurs) {
		p.setRef(stash, o, t)
		files.contents["logs/"+stash] = theirs
		return
	}

	p.note("the stash stays as it is: both sides have changed it")
	for _, id := range slices.Backward(ids) {
		if id != "" && !inBase(id) && !bytes.Contains(ours, []byte(id)) {
			p.note("%s has one of theirs", p.park(ctx, "stash", id))
		}
	}
}

// loggedIDs returns the new values of a ref in the lines of its log.
func (p *refPlan) loggedIDs(log []byte) (ids []string) {
	for l := range strings.Lines(string(log)) {
		if _, rest, ok := strings.Cut(l, " "); ok && len(rest) > 2*p.theirs.idLen {
			ids = append(ids, rest[:2*p.theirs.idLen])
		}
	}
	return ids
}

// decideHead decides the new value of HEAD.
func (p *refPlan) decideHead(ctx context.Context) {
	b, o, t := p.base.head, p.ours.head, p.theirs.head
	name, isRef := strings.CutPrefix(t, "ref: ")
	switch {
	case t == b || t == o:
	case o != b && !isRef && p.ours.isID(o) && (!p.headMoved(ctx, t) || !p.base.isID(b) && p.scratch.contains(ctx, t, o)):
		p.head = t
	case o != b && !isRef && !p.scratch.contains(ctx, p.ours.resolve(o), t):
		p.note("HEAD moved on both sides: %s has the other commits", p.park(ctx, "HEAD", t))
	case o != b:
	case p.headMoved(ctx, p.theirs.resolve(t)):
		p.note("HEAD stays: both sides have moved it")
		if !isRef {
			p.park(ctx, "HEAD", t)
		}

	case isRef && p.newValue(name) == "" && p.theirs.refs[name] != "":
		p.note("HEAD stays: %s is gone here", strings.TrimPrefix(name, branches))
	case isRef && p.checkedOutElsewhere(name):
		short := strings.TrimPrefix(name, branches)
		p.head = "ref: " + branches + p.park(ctx, short, cmp.Or(p.theirs.refs[name], p.newValue(name)))
	case !isRef || strings.HasPrefix(name, "refs/"):
		p.head = t
	}
}

// headMoved reports whether the receiving side moved HEAD to a commit that is not between the HEAD of the
// base and the commit target. Then the receiving side has made commits of its own, or removed some.
func (p *refPlan) headMoved(ctx context.Context, target string) bool {
	baseHead, ourHead := p.base.resolve(p.base.head), p.ours.resolve(p.ours.head)
	return ourHead != baseHead && ourHead != "" && !(target != "" && p.scratch.contains(ctx, target, ourHead) && (baseHead == "" || p.scratch.contains(ctx, ourHead, baseHead)))
}

// limitHead drops the updates that would move HEAD to another commit than the HEAD of theirs, because the files of
// theirs belong to that HEAD. As in git, HEAD does not move during an operation such as a merge, unless the receiving
// side takes that operation from theirs.
func (p *refPlan) limitHead(ctx context.Context) {
	inOperation := p.ours.operation() != "" && !p.ours.sameOperation(p.theirs) && !p.takesOperation()
	fits := func() bool {
		before, after, there := p.ours.resolve(p.ours.head), p.newHead(), p.theirs.resolve(p.theirs.head)
		return after == before && p.head == "" || after == there && (after == before || after != "") && !inOperation
	}
	if fits() {
		return
	}

	p.prefersTheirs = false
	if inOperation && p.head != "" {
		p.head = ""
		p.note("HEAD stays: %s is in progress", p.ours.operation())
		if p.theirs.isID(p.theirs.head) {
			p.park(ctx, "HEAD", p.theirs.head)
		}
	}

	name := strings.TrimPrefix(cmp.Or(p.head, p.ours.head), "ref: ")
	p.dropBranchUpdate(ctx, name, inOperation)

	if p.head != "" && p.newHead() != "" && name != p.head {
		// HEAD stays: the receiving side has the branch at a commit of its own, with other files than theirs.
		p.head = ""
		p.note("HEAD stays: %s is at another commit here", strings.TrimPrefix(name, branches))
		if !fits() {
			p.dropBranchUpdate(ctx, strings.TrimPrefix(p.ours.head, "ref: "), inOperation)
		}
	}
}

// dropBranchUpdate drops the update of a branch that is checked out, and parks the commits of the update. inOperation
// means that the reason is an operation in progress.
func (p *refPlan) dropBranchUpdate(ctx context.Context, name string, inOperation bool) {
	i := p.indexOf(name)
	if i < 0 || p.updates[i].old == "" {
		return
	}
	u := p.updates[i]
	p.updates = slices.Delete(p.updates, i, i+1)

	short, reason := strings.TrimPrefix(name, branches), "it is checked out"
	if inOperation {
		reason = p.ours.operation() + " is in progress"
	}
	p.note("%s stays: %s", short, reason)

	if u.new != "" && !p.scratch.contains(ctx, u.old, u.new) {
		p.park(ctx, short, u.new)
	}
}

// newHead returns the commit of HEAD after the updates.
func (p *refPlan) newHead() string { return p.resolveNew(cmp.Or(p.head, p.ours.head)) }

// resolveNew follows a value of HEAD or of a ref to the id of an object, after the updates, "" for none.
func (p *refPlan) resolveNew(value string) string { return resolve(value, p.newValue) }
