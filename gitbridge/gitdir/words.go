package gitdir

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostSubjects is how many commits of a branch are named.
const mostSubjects = 5

// words says what the updates do, in git's words.
func (p *Plan) words(ctx context.Context) error {
	var said []string
	for _, u := range p.updates {
		short, isBranch := strings.CutPrefix(u.name, branches)
		tag, isTag := strings.CutPrefix(u.name, tags)
		switch {
		case isTag && u.new == "":
			said = append(said, "the tag "+tag+" is gone")
		case isTag:
			said = append(said, "new tag "+tag)
		case u.name == stash:
			said = append(said, "the stash changed")
		case strings.HasPrefix(u.name, remotes):
			said = append(said, strings.TrimPrefix(u.name, remotes)+" moved")
		case strings.HasPrefix(u.name, parked):
			if n, subjects := p.between(ctx, u.new, p.all(false)...); n > 0 {
				said = append(said, plural(n, "commit")+" on "+short)
				p.Commits = append(p.Commits, subjects...)
			}
		case isBranch:
			text := p.branchWords(ctx, short, u)
			said = append(said, text...)
		default:
			said = append(said, u.name+" moved")
		}
	}
	if p.head != "" {
		if name, ok := strings.CutPrefix(p.head, "ref: "); ok {
			said = append(said, "HEAD is at "+strings.TrimPrefix(name, branches))
		} else {
			said = append(said, "HEAD is at "+p.head[:min(7, len(p.head))])
		}
	}
	if len(said)+len(p.Lines) == 0 && len(p.delta) > 0 {
		said = append(said, plural(len(p.delta), "path")+" staged or unstaged")
	}
	if len(said)+len(p.Lines) == 0 && len(p.files) > 0 {
		said = append(said, "work in progress")
	}
	p.Lines = slices.Concat(said, p.Lines)
	return nil
}

// branchWords says what an update does to a branch.
func (p *Plan) branchWords(ctx context.Context, short string, u update) (said []string) {
	if u.new != "" && u.old == "" {
		text := "new branch " + short
		if n, subjects := p.between(ctx, u.new, p.all(false)...); n > 0 {
			text = plural(n, "commit") + " on the new branch " + short
			p.Commits = append(p.Commits, subjects...)
		}
		return []string{text}
	}
	if u.new != "" {
		if n, subjects := p.between(ctx, u.new, u.old); n > 0 {
			said = append(said, plural(n, "commit")+" on "+short)
			p.Commits = append(p.Commits, subjects...)
		}
	} else {
		said = append(said, "the branch "+short+" is gone")
	}
	stays := p.all(true)
	if u.new != "" {
		stays = []string{u.new}
	}
	if n, subjects := p.between(ctx, u.old, stays...); n > 0 {
		text := "takes " + plural(n, "commit") + " off " + short + ": " + trimmed(subjects)
		said, p.Off = append(said, text), append(p.Off, subjects...)
	}
	if len(said) == 0 {
		said = append(said, short+" moved")
	}
	return said
}

func trimmed(subjects []string) string {
	for i := range subjects {
		subjects[i] = strings.TrimSpace(subjects[i])
	}
	return strings.Join(subjects, ", ")
}

// all returns the values of the refs of the receiving side, before or after the updates.
func (p *Plan) all(after bool) (out []string) {
	for name, id := range p.ours.refs {
		if after {
			id = p.value(name)
		}
		if p.ours.isID(id) {
			out = append(out, id)
		}
	}
	if after {
		for _, u := range p.updates {
			if u.new != "" {
				out = append(out, u.new)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// between returns how many commits one has in its history that others have not, and the subjects of
// some, the newest last.
func (p *Plan) between(ctx context.Context, commit string, without ...string) (n int, subjects []string) {
	revs := commit + "\n"
	for _, id := range without {
		revs += "^" + id + "\n"
	}
	out, err := p.ask(ctx, nil, revs, "rev-list", "--count", "--ignore-missing", "--stdin")
	if n, _ = strconv.Atoi(strings.TrimSpace(out)); err != nil || n == 0 {
		return 0, nil
	}
	out, err = p.ask(ctx, nil, revs, "log", "--format=%s", "--ignore-missing", "-"+strconv.Itoa(mostSubjects), "--stdin")
	if err != nil {
		return n, nil
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	slices.Reverse(lines)
	if n > len(lines) {
		subjects = append(subjects, fmt.Sprintf("%d more, and", n-len(lines)))
	}
	for _, l := range lines {
		subjects = append(subjects, "  "+l)
	}
	return n, subjects
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
