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
	m         *Merge
	git       *scratchRepo
	updates   []update
	symrefs   map[string]string // new targets of symbolic refs, by name
	head      string            // the new value of HEAD, "" if HEAD stays
	preferred bool              // the branch of HEAD gets the value of theirs, although both sides moved it
	diverged  []*Diverged
	tips      []string // needed objects, in addition to the values of updates
	notes     []string // sentences about refs that stay as they are
}

// An update moves a ref. old and new are "" for none.
type update struct{ name, old, new string }

// decide plans the updates of all refs, and of HEAD.
func (p *refPlan) decide(ctx context.Context, work *workPlan) {
	all := maps.Clone(p.theirs.refs)
	maps.Copy(all, p.base.refs)

	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !Private(name) && name != stash {
			p.decideRef(ctx, name)
		}
	}

	p.decideStash(ctx, work)
	p.decideHead(ctx)
	p.keepHead(ctx)
}

// drop removes the updates whose objects are missing.
func (p *refPlan) drop(missing map[string]bool) {
	for _, u := range p.updates {
		if missing[u.new] {
			p.say("%s is left out: its objects are missing", u.name)
		}
	}

	p.updates = slices.DeleteFunc(p.updates, func(u update) bool { return missing[u.new] })
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
	case t == "" && o == b:
		if p.checkedOutElsewhere(name) {
			p.say("%s stays: another working tree has it checked out", short)
			return
		}
		p.update(name, o, "")

	case t == "":
		p.say("%s stays: it moved since", strings.TrimPrefix(name, "refs/"))
	case p.m.Undo && o == b && !(isBranch && p.checkedOutElsewhere(name)):
		p.update(name, o, t)
	case p.m.Undo:
		p.say("%s stays: it moved since", strings.TrimPrefix(name, "refs/"))
	case strings.HasPrefix(name, tags) && o+b != "":
		p.say("the tag %s stays as it is here", strings.TrimPrefix(name, tags))
	case isBranch && p.checkedOutElsewhere(name):
		if !p.git.contains(ctx, cmp.Or(o, t), t) || o == "" {
			p.park(ctx, short, t)
			p.say("another working tree has %s checked out", short)
		}

	case o == b && (!isBranch || b == "" || p.git.contains(ctx, t, b) || p.movedAway(name, b)):
		p.update(name, o, t)
	case o != "" && p.git.contains(ctx, o, t):
	case o != "" && p.git.contains(ctx, t, o) && (p.ours.head != "ref: "+name || b == "" || p.git.contains(ctx, o, b)):
		p.update(name, o, t)
	case isBranch && o != "" && p.m.Prefer(short):
		p.say("%s moved on both sides: it is theirs, and %s has what it was", short, p.park(ctx, short, o))
		p.update(name, o, t)
		p.preferred = p.preferred || p.ours.head == "ref: "+name
	case isBranch:
		at := p.park(ctx, short, t)
		if o == "" {
			p.say("%s is gone here: %s has the commits", short, at)
			return
		}
		p.diverged = append(p.diverged, &Diverged{Diverged: threeway.Diverged{Branch: short, Parked: at}, ours: o, theirs: t})

	case strings.HasPrefix(name, remotes):
	default: // notes, and refs of other programs
		p.say("%s moved on both sides: it stays, and %s is the other one", name, p.parkRef(ctx, name, t))
	}
}

// parkRef makes a new ref for the value that theirs has of a ref. The ref is not a branch. parkRef returns the name
// of the new ref.
func (p *refPlan) parkRef(ctx context.Context, ref, value string) string {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(ref, "refs/"), "/")
	first := "refs/" + kind + "/amberfs/" + refName(p.m.Name) + "/" + rest
	return p.putAtFreeName(ctx, first, value)
}

// movedAway reports whether their side moved a branch away from a commit, for example by a reset or a rebase. If not,
// the branch never had the commit on their side.
func (p *refPlan) movedAway(name, from string) bool {
	return bytes.Contains(readAny(p.m.Theirs, "logs/"+name), []byte(from)) && !p.keptBeside(from)
}

// keptBeside reports whether an earlier merge on their side has parked a commit, see park.
func (p *refPlan) keptBeside(id string) bool {
	for name, value := range p.theirs.refs {
		if value == id && strings.HasPrefix(name, parked) {
			return true
		}
	}
	return false
}

// checkedOutElsewhere reports whether another working tree of the receiving side has a branch checked out. It ignores
// a working tree whose state is replaced by that of theirs.
func (p *refPlan) checkedOutElsewhere(name string) bool {
	linked := p.m.Ours.Dir != p.m.Ours.Common
	for id, tree := range p.ours.worktrees {
		if tree.head == "ref: "+name && (linked && id != filepath.Base(p.m.Ours.Dir) || !linked && !p.takesTree(id)) {
			return true
		}
	}
	if !linked || p.m.Ours.setting("core.bare") == "true" {
		return false
	}

	text, err := readSmall(filepath.Join(p.m.Ours.Common, "HEAD"))
	return err == nil && strings.TrimSpace(text) == "ref: "+name
}

func (p *refPlan) say(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *refPlan) update(name, old, to string) {
	if i := p.indexOf(name); i >= 0 {
		p.updates[i].new = to // git takes one update of each ref
		return
	}
	p.updates = append(p.updates, update{name, old, to})
}

// indexOf returns the index of the update of a ref, -1 for none.
func (p *refPlan) indexOf(name string) int {
	return slices.IndexFunc(p.updates, func(u update) bool { return u.name == name })
}

// value returns the value of a ref after the updates.
func (p *refPlan) value(name string) string {
	if i := p.indexOf(name); i >= 0 {
		return p.updates[i].new
	}
	return p.ours.refs[name]
}

const parked = branches + "amberfs/"

// park makes a new branch for a commit that branch does not get, and returns its name without refs/heads. The name is
// amberfs/NAME/BRANCH, where NAME is Merge.Name; with dashes if a branch amberfs or amberfs/NAME is in the way.
func (p *refPlan) park(ctx context.Context, branch, commit string) string {
	first := parked + refName(p.m.Name) + "/" + branch
	if p.value(branches+"amberfs") != "" || p.value(parked+refName(p.m.Name)) != "" {
		first = branches + "amberfs-" + refName(p.m.Name) + "-" + strings.ReplaceAll(branch, "/", "-")
	}
	return strings.TrimPrefix(p.putAtFreeName(ctx, first, commit), branches)
}

// putAtFreeName sets a ref to a value, and returns the name of the ref: first, or, if the ref first has commits that
// the value does not contain, first with a number.
func (p *refPlan) putAtFreeName(ctx context.Context, first, value string) string {
	name := first

	for n := 2; ; n++ {
		has := p.value(name)
		if has == "" || p.git.contains(ctx, value, has) {
			if has != value {
				p.update(name, has, value)
			}
			return name
		}

		name = fmt.Sprintf("%s-%d", first, n)
	}
}

// refName turns any name into a valid component of the name of a ref.
func refName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\/@{`, r) {
			return '-'
		}
		return r
	}, name)
	for strings.Contains(name, "..") {
		name = strings.ReplaceAll(name, "..", "-")
	}
	if name = strings.Trim(strings.TrimSuffix(name, ".lock"), ".-"); name == "" {
		name = "other"
	}

	return name
}

// parkAll parks the branches of theirs, which is another repository than ours.
func (p *refPlan) parkAll(ctx context.Context) {
	p.say("the git directory is another one there: this one stays as it is")
	known := make(map[string]bool)
	for _, id := range p.ours.refs {
		known[id] = true
	}

	for _, name := range slices.Sorted(maps.Keys(p.theirs.refs)) {
		id := p.theirs.refs[name]
		if short, ok := strings.CutPrefix(name, branches); ok && p.theirs.isID(id) && !known[id] {
			p.say("%s has the commits of its %s", p.park(ctx, short, id), short)
			p.tips = append(p.tips, id)
		}
	}
}

// decideStash takes the stash of theirs, with its log, if the receiving side still has the stash of the base.
// Otherwise it parks each new stash of theirs.
func (p *refPlan) decideStash(ctx context.Context, work *workPlan) {
	b, o, t := p.base.refs[stash], p.ours.refs[stash], p.theirs.refs[stash]
	base, ours, theirs := readAny(p.m.Base, "logs/"+stash), readAny(p.m.Ours, "logs/"+stash), readAny(p.m.Theirs, "logs/"+stash)
	if b == t && bytes.Equal(base, theirs) || o == t {
		return
	}

	var ids []string
	for l := range strings.Lines(string(theirs)) {
		if _, rest, ok := strings.Cut(l, " "); ok && len(rest) > 2*p.theirs.idLen {
			ids = append(ids, rest[:2*p.theirs.idLen])
		}
	}

	if !slices.Contains(ids, t) {
		ids = append(ids, t)
	}
	p.tips = append(p.tips, ids...)

	if o == b {
		p.update(stash, o, t)
		work.files["logs/"+stash] = theirs
		return
	}

	p.say("the stash stays as it is: both sides have changed it")
	for _, id := range slices.Backward(ids) {
		if id != "" && id != b && !bytes.Contains(base, []byte(id)) && !bytes.Contains(ours, []byte(id)) {
			p.say("%s has one of theirs", p.park(ctx, "stash", id))
		}
	}
}

// decideHead decides the new value of HEAD.
func (p *refPlan) decideHead(ctx context.Context) {
	b, o, t := p.base.head, p.ours.head, p.theirs.head
	name, isRef := strings.CutPrefix(t, "ref: ")
	switch {
	case t == b || t == o:
	case o != b && !isRef && p.ours.isID(o) && p.git.contains(ctx, t, o) && (!p.base.isID(b) || p.git.contains(ctx, o, b)):
		p.head = t
	case o != b && !isRef && !p.git.contains(ctx, p.ours.resolve(o), t):
		p.say("HEAD moved on both sides: %s has the other commits", p.park(ctx, "HEAD", t))
	case o != b:
	case p.headMoved(ctx, p.theirs.resolve(t)):
		p.say("HEAD stays: both sides have moved it")
		if !isRef {
			p.park(ctx, "HEAD", t)
		}

	case isRef && p.value(name) == "" && p.theirs.refs[name] != "":
		p.say("HEAD stays: %s is gone here", strings.TrimPrefix(name, branches))
	case isRef && p.checkedOutElsewhere(name):
		short := strings.TrimPrefix(name, branches)
		p.head = "ref: " + branches + p.park(ctx, short, cmp.Or(p.theirs.refs[name], p.value(name)))
	case !isRef || strings.HasPrefix(name, "refs/"):
		p.head = t
	}
}

// headMoved reports whether the receiving side moved HEAD to a commit that is not between the base and the commit to.
// Then it has made commits of its own, or removed some.
func (p *refPlan) headMoved(ctx context.Context, to string) bool {
	was, is := p.base.resolve(p.base.head), p.ours.resolve(p.ours.head)
	return is != was && is != "" && !(to != "" && p.git.contains(ctx, to, is) && (was == "" || p.git.contains(ctx, is, was)))
}

// keepHead drops the updates that would move HEAD to another commit than the HEAD of theirs, because the files of
// theirs belong to that HEAD. As in git, HEAD does not move while work is in progress, unless the receiving side
// takes that work from theirs.
func (p *refPlan) keepHead(ctx context.Context) {
	busy := p.ours.progress() != "" && !p.ours.sameWork(p.theirs) && !p.takesWork()
	fits := func() bool {
		is, to, there := p.ours.resolve(p.ours.head), p.newHead(), p.theirs.resolve(p.theirs.head)
		return to == is && p.head == "" || to == there && (to == is || to != "") && !busy
	}
	if fits() {
		return
	}

	p.preferred = false
	if busy && p.head != "" {
		p.head = ""
		p.say("HEAD stays: %s is in progress", p.ours.progress())
		if p.theirs.isID(p.theirs.head) {
			p.park(ctx, "HEAD", p.theirs.head)
		}
	}

	name := strings.TrimPrefix(cmp.Or(p.head, p.ours.head), "ref: ")
	p.keepBranch(ctx, name, busy)

	if p.head != "" && p.newHead() != "" && name != p.head {
		p.head = "" // the branch has other files than theirs
		p.say("HEAD stays: %s is at another commit here", strings.TrimPrefix(name, branches))
		if !fits() {
			p.keepBranch(ctx, strings.TrimPrefix(p.ours.head, "ref: "), busy)
		}
	}
}

// keepBranch drops the update of a branch that is checked out, and parks the commits of the update. busy means that
// the reason is work in progress.
func (p *refPlan) keepBranch(ctx context.Context, name string, busy bool) {
	i := p.indexOf(name)
	if i < 0 || p.updates[i].old == "" {
		return
	}
	u := p.updates[i]
	p.updates = slices.Delete(p.updates, i, i+1)

	short, why := strings.TrimPrefix(name, branches), "it is checked out"
	if busy {
		why = p.ours.progress() + " is in progress"
	}
	p.say("%s stays: %s", short, why)

	if u.new != "" && !p.git.contains(ctx, u.old, u.new) {
		p.park(ctx, short, u.new)
	}
}

// newHead returns the commit of HEAD after the updates.
func (p *refPlan) newHead() string { return p.valueOf(cmp.Or(p.head, p.ours.head)) }

// valueOf follows a value of HEAD or of a ref to the id of an object, after the updates, "" for none.
func (p *refPlan) valueOf(value string) string { return resolve(value, p.value) }
