package gitdir

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// maxSubjects limits the subjects that are listed for a branch.
const maxSubjects = 5

// branchCommits are the subjects of new commits of a branch.
type branchCommits struct {
	branch   string
	subjects []string
}

// addLine adds a line to Lines.
func (p *Plan) addLine(format string, args ...any) {
	p.Lines = append(p.Lines, fmt.Sprintf(format, args...))
}

// summarize sets Lines, NewCommits and DroppedCommits.
func (p *Plan) summarize(ctx context.Context) {
	p.describeUpdates(ctx)
	if len(p.Lines)+len(p.refs.notes) == 0 && len(p.index.newEntries) > 0 {
		p.addLine("%s staged or unstaged", english.Plural(len(p.index.newEntries), "path", ""))
	}
	if len(p.Lines)+len(p.refs.notes) == 0 {
		p.Lines = p.files.lines
	}
	p.Lines = append(p.Lines, p.refs.notes...)
}

// describeUpdates describes the updates of refs, and the new value of HEAD. If several branches have new commits, the
// subject of each new commit follows the name of its branch.
func (p *Plan) describeUpdates(ctx context.Context) {
	var newCommits []branchCommits
	excluded := p.refs.refValues(false)
	// New refs come last.
	for _, u := range slices.SortedStableFunc(slices.Values(p.refs.updates), func(a, b refUpdate) int { return cmp.Compare(min(len(b.old), 1), min(len(a.old), 1)) }) {
		short, isBranch := strings.CutPrefix(u.name, branches)
		tag, isTag := strings.CutPrefix(u.name, tags)
		switch {
		case isTag && u.new == "":
			p.addLine("the tag %s is gone (was %s)", tag, shortRef(u.old))
		case isTag:
			p.addLine("new tag %s", tag)
		case u.name == stash && u.old != "":
			p.addLine("the stash changed (was %s)", shortRef(u.old))
		case u.name == stash:
			p.addLine("the stash changed")
		case isBranch:
			if subjects := p.describeBranch(ctx, short, u, excluded); len(subjects) > 0 {
				newCommits = append(newCommits, branchCommits{short, subjects})
			}
			excluded = append(excluded, u.new)
		default:
			p.addLine("%s moved", strings.TrimPrefix(u.name, remotes))
		}
	}

	for _, b := range newCommits {
		for _, subject := range b.subjects {
			if len(newCommits) > 1 {
				subject = b.branch + ": " + subject
			}
			p.NewCommits = append(p.NewCommits, "  "+subject)
		}
	}

	if p.refs.head == "" {
		return
	}
	at, isRef := strings.CutPrefix(p.refs.head, "ref: ")
	if !isRef {
		at = shortRef(at)
	}
	p.addLine("HEAD is at %s", strings.TrimPrefix(at, branches))
	if p.ours.isID(p.ours.head) {
		p.describeDropped(ctx, "HEAD", p.ours.head, append(p.refs.refValues(true), p.refs.newHead())...)
	}
}

// describeDropped describes the commits that the history of old has and that the histories of remaining do not have.
func (p *Plan) describeDropped(ctx context.Context, short, old string, remaining ...string) {
	if n, subjects := p.scratch.commitsBetween(ctx, old, remaining...); n > 0 {
		p.addLine("takes %s off %s: %s (it was %s)", english.Plural(n, "commit", ""), short, strings.Join(subjects, ", "), shortRef(old))
		p.DroppedCommits = append(p.DroppedCommits, subjects...)
	}
}

// describeBranch describes the update of a branch, and returns the subjects of its new commits. The commits of a new
// branch are its commits that are not in the histories of excluded.
func (p *Plan) describeBranch(ctx context.Context, short string, u refUpdate, excluded []string) (subjects []string) {
	lineCount, phrase, n := len(p.Lines), "on", 0
	if u.old != "" {
		excluded = []string{u.old}
	} else if !strings.HasPrefix(u.name, parkedPrefix) {
		phrase = "on the new branch"
	}

	remaining := []string{u.new}
	if u.new == "" {
		p.addLine("the branch %s is gone (was %s)", short, shortRef(u.old))
		remaining = p.refs.refValues(true)
	} else if n, subjects = p.scratch.commitsBetween(ctx, u.new, excluded...); n > 0 {
		p.addLine("%s %s %s", english.Plural(n, "commit", ""), phrase, short)
	} else if u.old == "" {
		p.addLine("new branch %s", short)
	}

	if u.old != "" {
		p.describeDropped(ctx, short, u.old, remaining...)
	}
	if len(p.Lines) == lineCount {
		p.addLine("%s moved", short)
	}

	return subjects
}

// refValues returns the ids of the objects of the refs of the receiving side, before or after the updates. It leaves
// out the private refs of operations in progress, because git deletes these at the end of the operation.
func (p *refPlan) refValues(after bool) (out []string) {
	all := maps.Clone(p.ours.refs)
	if after {
		for _, u := range p.updates {
			all[u.name] = u.new
		}
	}

	for name, id := range all {
		if p.ours.isID(id) && !IsPrivate(name) {
			out = append(out, id)
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}
