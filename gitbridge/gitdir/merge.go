package gitdir

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Git calls git with the settings that every call has, and returns its output.
type Git func(ctx context.Context, dir string, env []string, stdin io.Reader, args ...string) ([]byte, error)

// A Merge brings what theirs did since the base to the receiving side.
type Merge struct {
	Git    Git
	Base   Files // nil: there was none
	Theirs Files
	Ours   *Repo
	Name   string // of their side, in the names of branches
	// Prefer takes their side of branches that both moved. Ours get a branch of their own.
	Prefer bool
	// Alternates are directories with objects that theirs has there.
	Alternates []string
	// Borrowed are git directories of their side whose objects theirs reads, with the directories here
	// that have such objects already.
	Borrowed map[string]Files
	// Another: theirs is another repository in the place of the base.
	Another bool
}

// A Plan is what a merge does to the receiving repository.
type Plan struct {
	// Lines say it, in git's words. Commits are the subjects of those that come, some of each
	// branch, and Off of those that no branch has afterwards.
	Lines, Commits, Off []string
	// Parted: HEAD stays at a branch that does not get the commits of theirs. Parked is the branch
	// that has them.
	Parted bool
	Parked string

	m                   *Merge
	git                 string // the git directory from which git decides
	base, ours, theirs  *state
	updates             []update
	head                string // the new HEAD, "" for none
	symrefs             map[string]string
	files               map[string][]byte // to write; nil: to remove
	delta               []IndexEntry      // of the index; Mode 0 removes a path
	wasHead, toHead     string            // commits
	theirHead, baseHead string
	tips                []string // objects that are needed, with all that they lead to
}

// An update moves a ref. old and new are "" for none.
type update struct{ name, old, new string }

// Empty reports whether the receiving repository stays as it is.
func (p *Plan) Empty() bool {
	return len(p.updates)+len(p.symrefs)+len(p.files)+len(p.delta) == 0 && p.head == ""
}

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
	remotes  = "refs/remotes/"
	stash    = "refs/stash"
)

// Plan decides what the merge does. scratch is an empty directory for it.
func (m *Merge) Plan(ctx context.Context, scratch string) (*Plan, error) {
	p := &Plan{m: m, git: filepath.Join(scratch, "git"), symrefs: make(map[string]string), files: make(map[string][]byte)}
	var err error
	if p.theirs, err = read(m.Theirs); err != nil {
		return nil, err
	}
	if p.base = (&state{idLen: p.theirs.idLen}); m.Base != nil && !m.Another {
		if p.base, err = read(m.Base); err != nil {
			return nil, err
		}
		if p.base.same(p.theirs) {
			return p, nil
		}
	}
	if p.ours, err = read(m.Ours); err != nil {
		return nil, err
	}
	if p.ours.idLen != p.theirs.idLen {
		return nil, fmt.Errorf("%w: their object ids have another format", ErrKind)
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	if m.Base != nil && !m.Another && p.unrelated(ctx) {
		m.Another, p.base = true, &state{idLen: p.theirs.idLen}
	}
	if m.Another {
		p.parkAll(ctx)
	} else if err := p.decide(ctx); err != nil {
		return nil, err
	}
	return p, p.words(ctx)
}

// prepare makes the repository from which git decides: it has the objects of both sides.
func (p *Plan) prepare() error {
	objects := filepath.Join(p.git, "objects")
	format := "[core]\n\trepositoryformatversion = 0\n"
	if p.ours.idLen > 20 {
		format = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
	}
	files := map[string]string{
		"HEAD": "ref: refs/heads/none\n", "config": format + "[core]\n\tbare = true\n[gc]\n\tauto = 0\n",
		"objects/info/alternates": strings.Join(append([]string{filepath.Join(p.m.Ours.Common, "objects")}, p.m.Alternates...), "\n") + "\n", "shallow": string(p.ours.shallow),
	}
	for _, dir := range []string{objects + "/info", objects + "/pack", p.git + "/refs"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(p.git, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := copyObjects(p.m.Theirs, objects, filepath.Join(p.m.Ours.Common, "objects")); err != nil {
		return err
	}
	for here, f := range p.m.Borrowed {
		if err := copyObjects(f, objects, here); err != nil {
			return err
		}
	}
	return nil
}

// ask calls git in the repository that has the objects of both sides.
func (p *Plan) ask(ctx context.Context, env []string, stdin string, args ...string) (string, error) {
	env = append([]string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_NO_REPLACE_OBJECTS=1"}, env...)
	out, err := p.m.Git(ctx, "", env, strings.NewReader(stdin), append([]string{"--git-dir=" + p.git}, args...)...)
	return string(out), err
}

// contains reports whether a commit has another one in its history.
func (p *Plan) contains(ctx context.Context, commit, other string) bool {
	if commit == other {
		return true
	}
	_, err := p.ask(ctx, nil, "", "merge-base", "--is-ancestor", other, commit)
	return err == nil
}

// unrelated reports whether theirs and the base have commits, and none in common.
func (p *Plan) unrelated(ctx context.Context) bool {
	tips := func(s *state) (out []string) {
		for name, id := range s.refs {
			if s.isID(id) && strings.HasPrefix(name, branches) {
				out = append(out, id)
			}
		}
		if id := s.resolve(s.head); s.isID(id) {
			out = append(out, id)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	theirs, base := tips(p.theirs), tips(p.base)
	if len(theirs) == 0 || len(base) == 0 {
		return false
	}
	for _, id := range theirs {
		if slices.Contains(base, id) {
			return false
		}
	}
	for _, id := range theirs {
		out, err := p.ask(ctx, nil, "", append([]string{"merge-base", id}, base...)...)
		const none = 1 // else objects are missing
		if err == nil && out != "" || err != nil && exitCode(err) != none {
			return false
		}
	}
	return true
}

// decide decides about refs, HEAD, work in progress and the index.
func (p *Plan) decide(ctx context.Context) error {
	all := maps.Clone(p.theirs.refs)
	maps.Copy(all, p.base.refs)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !Private(name) && name != stash {
			p.ref(ctx, name)
		}
	}
	p.stash(ctx)
	p.decideHead(ctx)
	p.baseHead, p.theirHead, p.wasHead = p.base.resolve(p.base.head), p.theirs.resolve(p.theirs.head), p.ours.resolve(p.ours.head)
	p.toHead = p.newHead()
	p.work()
	p.Parted = p.toHead != p.theirHead && p.theirHead != p.baseHead
	if err := p.decideIndex(ctx); err != nil {
		return err
	}
	return p.needed(ctx)
}

// stash takes the stash with its log if the receiving side has the one of the base.
func (p *Plan) stash(ctx context.Context) {
	log := func(f Files) (b []byte) {
		if f != nil {
			b, _ = f.Read("logs/" + stash) // else there is none
		}
		return b
	}
	b, o, t := p.base.refs[stash], p.ours.refs[stash], p.theirs.refs[stash]
	base, theirs := log(p.m.Base), log(p.m.Theirs)
	switch {
	case b == t && bytes.Equal(base, theirs) || o == t:
	case o != b:
		p.say("the stash stays as it is: both sides have changed it")
		if t != "" && t != b {
			p.tips = append(p.tips, t)
			p.say("%s has theirs", p.park(ctx, "stash", t))
		}
	default:
		p.update(stash, o, t)
		p.files["logs/"+stash] = theirs
		for l := range strings.Lines(string(theirs)) {
			if _, rest, ok := strings.Cut(l, " "); ok && len(rest) > 2*p.theirs.idLen {
				p.tips = append(p.tips, rest[:2*p.theirs.idLen])
			}
		}
	}
}

// decideHead decides what is checked out.
func (p *Plan) decideHead(ctx context.Context) {
	b, o, t := p.base.head, p.ours.head, p.theirs.head
	name, isRef := strings.CutPrefix(t, "ref: ")
	switch {
	case t == b || t == o:
	case o != b && !isRef && p.ours.isID(o) && p.contains(ctx, t, o):
		p.head = t
	case o != b && !isRef && !p.contains(ctx, p.ours.resolve(o), t):
		p.say("HEAD moved on both sides: %s has the other commits", p.park(ctx, "HEAD", t))
	case o != b:
	case isRef && p.elsewhere(name):
		short := strings.TrimPrefix(name, branches)
		p.head = "ref: " + branches + p.park(ctx, short, cmp.Or(p.theirs.refs[name], p.value(name)))
	case !isRef || strings.HasPrefix(name, "refs/"):
		p.head = t
	}
}

// newHead is the commit of HEAD after the merge.
func (p *Plan) newHead() string {
	value := cmp.Or(p.head, p.ours.head)
	for range 5 {
		name, ok := strings.CutPrefix(value, "ref: ")
		if !ok {
			return value
		}
		value = p.value(name)
	}
	return ""
}

// work takes work in progress as a whole, or leaves it.
func (p *Plan) work() {
	if !bytes.Equal(p.base.sparse, p.theirs.sparse) && bytes.Equal(p.base.sparse, p.ours.sparse) {
		p.files["info/sparse-checkout"] = p.theirs.sparse
	}
	if p.base.sameWork(p.theirs) || p.ours.sameWork(p.theirs) {
		return
	}
	if !p.base.sameWork(p.ours) || p.toHead != p.theirHead {
		p.say("work in progress (%s) is left there", strings.Join(p.theirs.progress(), ", "))
		return
	}
	for name := range p.ours.unfinished {
		if _, ok := p.theirs.unfinished[name]; !ok {
			p.files[name] = nil
		}
	}
	for name, b := range p.theirs.unfinished {
		p.files[name] = b
		for _, word := range strings.FieldsFunc(string(b[:min(len(b), smallFile)]), func(r rune) bool { return r <= ' ' }) {
			if p.theirs.isID(word) {
				p.tips = append(p.tips, word)
			}
		}
	}
	for _, refs := range []map[string]string{p.ours.refs, p.theirs.refs} {
		for name := range refs {
			if Private(name) && p.value(name) != p.theirs.refs[name] {
				p.update(name, p.ours.refs[name], p.theirs.refs[name])
			}
		}
	}
}

// progress names work in progress.
func (s *state) progress() (out []string) {
	for name := range s.unfinished {
		first, _, _ := strings.Cut(name, "/")
		out = append(out, first)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// needed collects the objects that the receiving side needs, and leaves out updates whose objects
// are missing.
func (p *Plan) needed(ctx context.Context) error {
	for _, u := range p.updates {
		p.tips = append(p.tips, u.new)
	}
	if p.ours.isID(p.head) {
		p.tips = append(p.tips, p.head)
	}
	for _, head := range p.theirs.worktrees {
		if p.theirs.isID(head) {
			p.tips = append(p.tips, head)
		}
	}
	for _, e := range p.delta {
		const gitlink, mask = 0o160000, 0o170000
		if e.Mode != 0 && e.Mode&mask != gitlink {
			p.tips = append(p.tips, e.ID)
		}
	}
	slices.Sort(p.tips)
	p.tips = slices.DeleteFunc(slices.Compact(p.tips), func(id string) bool { return !p.ours.isID(id) })
	if len(p.tips) == 0 {
		return nil
	}
	out, err := p.ask(ctx, nil, strings.Join(p.tips, "\n")+"\n", "cat-file", "--batch-check")
	if err != nil {
		return err
	}
	missing := make(map[string]bool)
	for l := range strings.Lines(out) {
		if id, rest, _ := strings.Cut(strings.TrimSpace(l), " "); rest == "missing" {
			missing[id] = true
		}
	}
	p.tips = slices.DeleteFunc(p.tips, func(id string) bool { return missing[id] })
	for _, u := range p.updates {
		if missing[u.new] {
			p.say("%s is left out: its objects are missing", u.name)
		}
	}
	p.updates = slices.DeleteFunc(p.updates, func(u update) bool { return missing[u.new] })
	p.delta = slices.DeleteFunc(p.delta, func(e IndexEntry) bool { return e.Mode != 0 && missing[e.ID] })
	if missing[p.head] {
		p.head = ""
	}
	if missing[p.toHead] || p.toHead != p.newHead() {
		p.toHead, p.delta, p.files = p.newHead(), nil, map[string][]byte{}
	}
	return nil
}

// exitCode is the exit status of the git call that err is about, -1 if none.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
