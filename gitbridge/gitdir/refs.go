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
)

// ref decides about one ref.
func (p *Plan) ref(ctx context.Context, name string) {
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
	case strings.HasPrefix(name, tags) && o != "":
		p.say("the tag %s stays as it is", strings.TrimPrefix(name, tags))
	case isBranch && p.elsewhere(name):
		if !p.contains(ctx, cmp.Or(o, t), t) || o == "" {
			p.park(ctx, short, t)
			p.say("another working tree has %s checked out", short)
		}
	case o == b && (!isBranch || b == "" || p.contains(ctx, t, b) || p.moved(name, b)):
		p.update(name, o, t)
	case o != "" && p.contains(ctx, o, t):
	case o != "" && p.contains(ctx, t, o):
		p.update(name, o, t)
	case isBranch && p.m.Prefer && o != "":
		p.say("%s moved on both sides: it is theirs, and %s has what it was", short, p.park(ctx, short, o))
		p.update(name, o, t)
	case isBranch:
		at := p.park(ctx, short, t)
		if p.ours.head == "ref: "+name {
			p.Parked = at
		}
		if o == "" {
			p.say("%s is gone here: %s has the commits", short, at)
		} else {
			p.say("%s moved on both sides: it stays, and %s has the other commits", short, at)
		}
	case strings.HasPrefix(name, remotes):
	default:
		p.say("%s moved on both sides: it stays", name)
	}
}

// moved reports whether their side moved a branch away from a commit itself, such as by a reset
// or a rebase. Otherwise a branch without that commit never had it.
func (p *Plan) moved(name, from string) bool {
	log, err := p.m.Theirs.Read("logs/" + name)
	return err == nil && bytes.Contains(log, []byte(from)) && !p.keptBeside(from)
}

// keptBeside reports whether their side has a commit on a branch that an earlier merge made.
func (p *Plan) keptBeside(id string) bool {
	for name, value := range p.theirs.refs {
		if value == id && strings.HasPrefix(name, parked) {
			return true
		}
	}
	return false
}

// elsewhere reports whether another working tree of the receiving side has a branch checked out.
// One whose own part theirs changed too is not another: it lies in the directory.
func (p *Plan) elsewhere(name string) bool {
	heads := maps.Clone(p.ours.worktrees)
	if p.m.Ours.Dir != p.m.Ours.Common {
		delete(heads, filepath.Base(p.m.Ours.Dir))
		if text, err := readSmall(filepath.Join(p.m.Ours.Common, "HEAD")); err == nil && !p.bareCommon() {
			heads[""] = strings.TrimSpace(text)
		}
	}
	for id, head := range heads {
		if head == "ref: "+name && (p.m.Ours.Dir != p.m.Ours.Common || !p.changedTree(id)) {
			return true
		}
	}
	return false
}

func (p *Plan) bareCommon() bool {
	text, _ := readSmall(filepath.Join(p.m.Ours.Common, "config"))
	return parseConfig(text).last("core.bare") == "true"
}

// changedTree reports whether theirs changed the index of a linked working tree.
func (p *Plan) changedTree(id string) bool {
	at := "worktrees/" + id + "/index"
	t, terr := p.m.Theirs.Read(at)
	if p.m.Base == nil || terr != nil {
		return false
	}
	b, _ := p.m.Base.Read(at) // else it has none
	return !bytes.Equal(b, t)
}

func (p *Plan) say(format string, args ...any) {
	p.Lines = append(p.Lines, fmt.Sprintf(format, args...))
}

func (p *Plan) update(name, old, to string) {
	p.updates = append(p.updates, update{name, old, to})
}

// value is what a ref has after the updates.
func (p *Plan) value(name string) string {
	for _, u := range slices.Backward(p.updates) {
		if u.name == name {
			return u.new
		}
	}
	return p.ours.refs[name]
}

const parked = branches + "amberfs/"

// park gives commits a branch of their own, and returns its name.
func (p *Plan) park(ctx context.Context, branch, commit string) string {
	first := parked + refName(p.m.Name) + "/" + branch
	if p.value(branches+"amberfs") != "" || p.value(parked+refName(p.m.Name)) != "" {
		first = branches + "amberfs-" + refName(p.m.Name) + "-" + strings.ReplaceAll(branch, "/", "-")
	}
	name := first
	for n := 2; ; n++ {
		has := p.value(name)
		if has == "" || p.contains(ctx, commit, has) {
			if has != commit {
				p.update(name, has, commit)
			}
			return strings.TrimPrefix(name, branches)
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
func (p *Plan) parkAll(ctx context.Context) {
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
	p.wasHead = p.ours.resolve(p.ours.head)
	p.toHead = p.wasHead
}
