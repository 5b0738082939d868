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

// A refPlan is what becomes of the refs and of HEAD.
type refPlan struct {
	sides
	m         *Merge
	git       *scratchRepo
	updates   []update
	symrefs   map[string]string
	head      string // the new HEAD, "" for none
	preferred bool   // the branch of HEAD became theirs, although both moved it
	diverged  []*Diverged
	tips      []string // objects that are needed beside the values of updates
	notes     []string // what stays as it is, and why
}

// An update moves a ref. old and new are "" for none.
type update struct{ name, old, new string }

// decide decides about all refs, and HEAD.
func (p *refPlan) decide(ctx context.Context, work *workPlan) {
	all := maps.Clone(p.theirs.refs)
	maps.Copy(all, p.base.refs)

	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !Private(name) && name != stash {
			p.ref(ctx, name)
		}
	}

	p.stash(ctx, work)
	p.decideHead(ctx)
	p.keepHead(ctx)
}

// drop leaves out updates whose objects are missing.
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

// ref decides about one ref.
func (p *refPlan) ref(ctx context.Context, name string) {
	b, o, t := p.base.refs[name], p.ours.refs[name], p.theirs.refs[name]
	short, isBranch := strings.CutPrefix(name, branches)
	switch {
	case t == b || t == o:
	case strings.Contains(b+o+t, "ref: "):
		if o == b && t != "" {
			p.symrefs[name] = strings.TrimPrefix(t, "ref: ")
		}
	case t == "" && o == b:
		if p.elsewhere(name) {
			p.say("%s stays: another working tree has it checked out", short)
			return
		}
		p.update(name, o, "")

	case t == "":
		p.say("%s stays: it moved since", strings.TrimPrefix(name, "refs/"))
	case p.m.Undo && o == b && !(isBranch && p.elsewhere(name)):
		p.update(name, o, t)
	case p.m.Undo:
		p.say("%s stays: it moved since", strings.TrimPrefix(name, "refs/"))
	case strings.HasPrefix(name, tags) && o+b != "":
		p.say("the tag %s stays as it is here", strings.TrimPrefix(name, tags))
	case isBranch && p.elsewhere(name):
		if !p.git.contains(ctx, cmp.Or(o, t), t) || o == "" {
			p.park(ctx, short, t)
			p.say("another working tree has %s checked out", short)
		}

	case o == b && (!isBranch || b == "" || p.git.contains(ctx, t, b) || p.moved(name, b)):
		p.update(name, o, t)
	case o != "" && p.git.contains(ctx, o, t):
	case o != "" && p.git.contains(ctx, t, o) && (p.ours.head != "ref: "+name || !p.headMoved(ctx, t)):
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
	default: // notes, and what others keep in refs
		p.say("%s moved on both sides: it stays, and %s is the other one", name, p.beside(ctx, name, t))
	}
}

// beside gives the value of a ref that is no branch a ref of its own, and returns its name.
func (p *refPlan) beside(ctx context.Context, ref, value string) string {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(ref, "refs/"), "/")
	first := "refs/" + kind + "/amberfs/" + refName(p.m.Name) + "/" + rest
	return p.free(ctx, first, value)
}

// moved reports whether their side moved a branch away from a commit itself, such as by a reset
// or a rebase. Otherwise a branch without that commit never had it.
func (p *refPlan) moved(name, from string) bool {
	return bytes.Contains(readAny(p.m.Theirs, "logs/"+name), []byte(from)) && !p.keptBeside(from)
}

// keptBeside reports whether their side has a commit on a branch that an earlier merge made.
func (p *refPlan) keptBeside(id string) bool {
	for name, value := range p.theirs.refs {
		if value == id && strings.HasPrefix(name, parked) {
			return true
		}
	}
	return false
}

// elsewhere reports whether another working tree of the receiving side has a branch checked out.
// One that becomes as theirs has it is not another.
func (p *refPlan) elsewhere(name string) bool {
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
		p.updates[i].new = to // git moves a ref once
		return
	}
	p.updates = append(p.updates, update{name, old, to})
}

// indexOf returns the index of the update of a ref, -1 for none.
func (p *refPlan) indexOf(name string) int {
	return slices.IndexFunc(p.updates, func(u update) bool { return u.name == name })
}

// value is what a ref has after the updates.
func (p *refPlan) value(name string) string {
	if i := p.indexOf(name); i >= 0 {
		return p.updates[i].new
	}
	return p.ours.refs[name]
}

const parked = branches + "amberfs/"

// park gives commits a branch of their own, and returns its name.
func (p *refPlan) park(ctx context.Context, branch, commit string) string {
	first := parked + refName(p.m.Name) + "/" + branch
	if p.value(branches+"amberfs") != "" || p.value(parked+refName(p.m.Name)) != "" {
		first = branches + "amberfs-" + refName(p.m.Name) + "-" + strings.ReplaceAll(branch, "/", "-")
	}
	return strings.TrimPrefix(p.free(ctx, first, commit), branches)
}

// free gives a value a ref of a name, or of one like it that no other value has, and returns that.
func (p *refPlan) free(ctx context.Context, first, value string) string {
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

// refName makes a part of a ref's name of any name.
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

// parkAll gives all branches of another repository branches of their own.
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

// stash takes the stash with its log if the receiving side has the one of the base.
func (p *refPlan) stash(ctx context.Context, work *workPlan) {
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

// decideHead decides what is checked out.
func (p *refPlan) decideHead(ctx context.Context) {
	b, o, t := p.base.head, p.ours.head, p.theirs.head
	name, isRef := strings.CutPrefix(t, "ref: ")
	switch {
	case t == b || t == o:
	case o != b && !isRef && p.ours.isID(o) && !p.headMoved(ctx, t):
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
	case isRef && p.elsewhere(name):
		short := strings.TrimPrefix(name, branches)
		p.head = "ref: " + branches + p.park(ctx, short, cmp.Or(p.theirs.refs[name], p.value(name)))
	case !isRef || strings.HasPrefix(name, "refs/"):
		p.head = t
	}
}

// headMoved reports whether the receiving side has moved HEAD other than on the way to a commit of
// theirs: it has commits of its own, or took some back.
func (p *refPlan) headMoved(ctx context.Context, to string) bool {
	was, is := p.base.resolve(p.base.head), p.ours.resolve(p.ours.head)
	return is != was && is != "" && !(to != "" && p.git.contains(ctx, to, is) && (was == "" || p.git.contains(ctx, is, was)))
}

// keepHead keeps the branch that HEAD is at, unless it becomes the commit that the files of theirs
// belong to. As for git, nothing moves HEAD while work is in progress, unless that becomes theirs, too.
func (p *refPlan) keepHead(ctx context.Context) {
	busy := p.ours.progress() != "" && !p.ours.sameWork(p.theirs) && !p.takesWork()
	fits := func() bool {
		is, to := p.ours.resolve(p.ours.head), p.newHead()
		return to == is && (p.head == "" || !busy) || to == p.theirs.resolve(p.theirs.head) && to != "" && !busy
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

// keepBranch leaves a branch that is checked out where it is.
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

// newHead is the commit of HEAD after the merge.
func (p *refPlan) newHead() string { return p.valueOf(cmp.Or(p.head, p.ours.head)) }

// valueOf returns the object that a value of HEAD or of a ref leads to after the updates, "" for none.
func (p *refPlan) valueOf(value string) string { return resolve(value, p.value) }
