package gitdir

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxSubjects limits the subjects that are listed for a branch.
const maxSubjects = 5

// A summary describes a plan in git's words.
type summary struct {
	lines      []string
	newCommits []branchCommits
	dropped    []string // subjects of commits that no branch has afterwards
}

// branchCommits are the subjects of new commits of a branch.
type branchCommits struct {
	branch   string
	subjects []string
}

func (s *summary) addLine(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// commits returns the subjects of new commits. If several branches have new commits, each subject follows the name of
// its branch.
func (s *summary) commits() (out []string) {
	for _, b := range s.newCommits {
		for _, subject := range b.subjects {
			if len(s.newCommits) > 1 {
				subject = b.branch + ": " + subject
			}
			out = append(out, "  "+subject)
		}
	}
	return out
}

// summarize sets Lines, NewCommits and DroppedCommits.
func (p *Plan) summarize(ctx context.Context) {
	s := p.refs.summary(ctx)
	if len(s.lines)+len(p.refs.notes) == 0 && len(p.index.newEntries) > 0 {
		s.addLine("%s staged or unstaged", plural(len(p.index.newEntries), "path"))
	}
	if len(s.lines)+len(p.refs.notes) == 0 {
		s.lines = p.files.lines
	}

	p.Lines, p.NewCommits, p.DroppedCommits = append(s.lines, p.refs.notes...), s.commits(), s.dropped
}

// summary describes the updates.
func (p *refPlan) summary(ctx context.Context) *summary {
	s, excluded := &summary{}, p.refValues(false)
	// New refs come last.
	for _, u := range slices.SortedStableFunc(slices.Values(p.updates), func(a, b refUpdate) int { return cmp.Compare(min(len(b.old), 1), min(len(a.old), 1)) }) {
		short, isBranch := strings.CutPrefix(u.name, branches)
		tag, isTag := strings.CutPrefix(u.name, tags)
		switch {
		case isTag && u.new == "":
			s.addLine("the tag %s is gone (was %s)", tag, shortRef(u.old))
		case isTag:
			s.addLine("new tag %s", tag)
		case u.name == stash && u.old != "":
			s.addLine("the stash changed (was %s)", shortRef(u.old))
		case u.name == stash:
			s.addLine("the stash changed")
		case strings.HasPrefix(u.name, remotes):
			s.addLine("%s moved", strings.TrimPrefix(u.name, remotes))
		case isBranch:
			p.describeBranch(ctx, s, short, u, excluded)
			excluded = append(excluded, u.new)
		default:
			s.addLine("%s moved", u.name)
		}
	}

	if name, ok := strings.CutPrefix(p.head, "ref: "); ok {
		s.addLine("HEAD is at %s", strings.TrimPrefix(name, branches))
	} else if p.head != "" {
		s.addLine("HEAD is at %s", p.head[:min(7, len(p.head))])
	}

	if p.head != "" && p.ours.isID(p.ours.head) {
		p.describeDropped(ctx, s, "HEAD", p.ours.head, append(p.refValues(true), p.newHead())...)
	}

	return s
}

// describeDropped describes the commits that the history of old has and that the histories of remaining do not have.
func (p *refPlan) describeDropped(ctx context.Context, s *summary, short, old string, remaining ...string) {
	if n, subjects := p.scratch.commitsBetween(ctx, old, remaining...); n > 0 {
		s.addLine("takes %s off %s: %s (it was %s)", plural(n, "commit"), short, strings.Join(subjects, ", "), shortRef(old))
		s.dropped = append(s.dropped, subjects...)
	}
}

// describeBranch describes the update of a branch. The commits of a new branch are its commits that are not
// in the histories of excluded.
func (p *refPlan) describeBranch(ctx context.Context, s *summary, short string, u refUpdate, excluded []string) {
	lineCount, phrase := len(s.lines), "on"
	if u.old != "" {
		excluded = []string{u.old}
	} else if !strings.HasPrefix(u.name, parkedPrefix) {
		phrase = "on the new branch"
	}

	if u.new == "" {
		s.addLine("the branch %s is gone (was %s)", short, shortRef(u.old))
	} else if n, subjects := p.scratch.commitsBetween(ctx, u.new, excluded...); n > 0 {
		s.addLine("%s %s %s", plural(n, "commit"), phrase, short)
		s.newCommits = append(s.newCommits, branchCommits{short, subjects})
	} else if u.old == "" {
		s.addLine("new branch %s", short)
	}

	remaining := []string{u.new}
	if u.new == "" {
		remaining = p.refValues(true)
	}
	if u.old != "" {
		p.describeDropped(ctx, s, short, u.old, remaining...)
	}
	if len(s.lines) == lineCount {
		s.addLine("%s moved", short)
	}
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

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
