package gitdir

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mostSubjects limits the subjects that are listed for a branch.
const mostSubjects = 5

// A summary describes a plan in git's words.
type summary struct {
	said []string
	on   []branchCommits // new commits
	off  []string        // subjects of commits that no branch has afterwards
}

// branchCommits are the subjects of new commits of a branch.
type branchCommits struct {
	branch   string
	subjects []string
}

func (s *summary) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

// commits returns the subjects of new commits. If several branches have new commits, each subject follows the name of
// its branch.
func (s *summary) commits() (out []string) {
	for _, b := range s.on {
		for _, subject := range b.subjects {
			if len(s.on) > 1 {
				subject = b.branch + ": " + subject
			}
			out = append(out, "  "+subject)
		}
	}
	return out
}

// summarize sets Lines, Commits and Off.
func (p *Plan) summarize(ctx context.Context) {
	s := p.refs.summary(ctx)
	if len(s.said)+len(p.refs.notes) == 0 && len(p.index.delta) > 0 {
		s.say("%s staged or unstaged", plural(len(p.index.delta), "path"))
	}
	if len(s.said)+len(p.refs.notes) == 0 {
		s.said = p.work.said
	}

	p.Lines, p.Commits, p.Off = append(s.said, p.refs.notes...), s.commits(), s.off
}

// summary describes the updates.
func (p *refPlan) summary(ctx context.Context) *summary {
	s, known := &summary{}, p.values(false)
	// New refs come last.
	for _, u := range slices.SortedStableFunc(slices.Values(p.updates), func(a, b update) int { return cmp.Compare(min(len(b.old), 1), min(len(a.old), 1)) }) {
		short, isBranch := strings.CutPrefix(u.name, branches)
		tag, isTag := strings.CutPrefix(u.name, tags)
		switch {
		case isTag && u.new == "":
			s.say("the tag %s is gone (was %s)", tag, shortRef(u.old))
		case isTag:
			s.say("new tag %s", tag)
		case u.name == stash && u.old != "":
			s.say("the stash changed (was %s)", shortRef(u.old))
		case u.name == stash:
			s.say("the stash changed")
		case strings.HasPrefix(u.name, remotes):
			s.say("%s moved", strings.TrimPrefix(u.name, remotes))
		case isBranch:
			p.branchWords(ctx, s, short, u, known)
			known = append(known, u.new)
		default:
			s.say("%s moved", u.name)
		}
	}

	if name, ok := strings.CutPrefix(p.head, "ref: "); ok {
		s.say("HEAD is at %s", strings.TrimPrefix(name, branches))
	} else if p.head != "" {
		s.say("HEAD is at %s", p.head[:min(7, len(p.head))])
	}

	if p.head != "" && p.ours.isID(p.ours.head) {
		p.offWords(ctx, s, "HEAD", p.ours.head, append(p.values(true), p.newHead())...)
	}

	return s
}

// offWords describes the commits that the history of old has and that the histories of stays do not have.
func (p *refPlan) offWords(ctx context.Context, s *summary, short, old string, stays ...string) {
	if n, subjects := p.git.between(ctx, old, stays...); n > 0 {
		s.say("takes %s off %s: %s (it was %s)", plural(n, "commit"), short, strings.Join(subjects, ", "), shortRef(old))
		s.off = append(s.off, subjects...)
	}
}

// branchWords describes the update of a branch. The commits of a new branch are those that the histories of known do
// not have.
func (p *refPlan) branchWords(ctx context.Context, s *summary, short string, u update, known []string) {
	before, words := len(s.said), "on"
	if u.old != "" {
		known = []string{u.old}
	} else if !strings.HasPrefix(u.name, parked) {
		words = "on the new branch"
	}

	if u.new == "" {
		s.say("the branch %s is gone (was %s)", short, shortRef(u.old))
	} else if n, subjects := p.git.between(ctx, u.new, known...); n > 0 {
		s.say("%s %s %s", plural(n, "commit"), words, short)
		s.on = append(s.on, branchCommits{short, subjects})
	} else if u.old == "" {
		s.say("new branch %s", short)
	}

	stays := []string{u.new}
	if u.new == "" {
		stays = p.values(true)
	}
	if u.old != "" {
		p.offWords(ctx, s, short, u.old, stays...)
	}
	if len(s.said) == before {
		s.say("%s moved", short)
	}
}

// values returns the ids of the objects of the refs of the receiving side, before or after the updates. It leaves out
// the private refs of work in progress, because git deletes these at the end of the work.
func (p *refPlan) values(after bool) (out []string) {
	all := maps.Clone(p.ours.refs)
	if after {
		for _, u := range p.updates {
			all[u.name] = u.new
		}
	}

	for name, id := range all {
		if p.ours.isID(id) && !Private(name) {
			out = append(out, id)
		}
	}

	slices.Sort(out)
	return slices.Compact(out)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
