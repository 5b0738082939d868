package gitdir

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A scratchRepo is a temporary repository with the objects of both sides and a plain configuration. Merge.Plan runs
// git in it.
type scratchRepo struct {
	gitCaller
	emptyTree string // the id of the tree without entries
	// shallowEnds are the commits at which the history of theirs is cut off (shallow) and whose parents neither side
	// has.
	shallowEnds []string
	// callErr is the error of a git call that ended without an exit status, for example by a kill.
	callErr error
}

// newScratchRepo makes the repository for a merge.
func (m *Merge) newScratchRepo(ctx context.Context, dir string, ours, theirs *state) (*scratchRepo, error) {
	env := append([]string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_NO_REPLACE_OBJECTS=1"}, literalPaths...)
	s := &scratchRepo{gitCaller: gitCaller{m.Git, dir, "", env}, emptyTree: ours.emptyTreeID()}
	objects := filepath.Join(dir, "objects")
	if err := makeRepo(dir, map[string]string{
		"HEAD": "ref: refs/heads/none\n", "config": objectFormatConfig(ours.idLen) + "[core]\n\tbare = true\n[gc]\n\tauto = 0\n", "shallow": string(ours.shallowFile),
		alternatesFile: alternatesText(append([]string{filepath.Join(m.Ours.Common, "objects")}, m.Alternates...)),
	}); err != nil {
		return nil, err
	}

	if err := copyObjects(m.Theirs, objects, filepath.Join(m.Ours.Common, "objects")); err != nil {
		return nil, err
	}

	for knownDir, f := range m.TheirAlternates {
		if err := copyObjects(f, objects, knownDir); err != nil {
			return nil, err
		}
	}

	return s, s.makeShallow(ctx, ours, theirs)
}

const alternatesFile = "objects/info/alternates"

// alternatesText returns the text of alternatesFile that names directories with objects.
func alternatesText(dirs []string) string { return strings.Join(append(dirs, ""), "\n") }

// makeRepo makes a git directory with the given files. It skips files whose text is empty.
func makeRepo(dir string, files map[string]string) error {
	for _, sub := range []string{"objects/info", "objects/pack", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}

	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// makeShallow sets shallowEnds, and makes the repository shallow there: git does not search for parents that theirs
// does not have.
func (s *scratchRepo) makeShallow(ctx context.Context, ours, theirs *state) error {
	for _, id := range strings.Fields(string(theirs.shallowFile)) {
		if !theirs.isID(id) || bytes.Contains(ours.shallowFile, []byte(id)) {
			continue
		}
		if _, err := s.ask(ctx, nil, nil, "rev-list", "--quiet", "--max-count=2", id); err != nil {
			s.shallowEnds = append(s.shallowEnds, id)
		}
	}
	if len(s.shallowEnds) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(s.gitDir, "shallow"), []byte(string(ours.shallowFile)+strings.Join(s.shallowEnds, "\n")+"\n"), 0o600)
}

// shallowEnv returns the environment of a git call for the receiving repository with the objects of both sides, in which
// the repository is shallow at shallowEnds.
func (s *scratchRepo) shallowEnv() []string {
	env := []string{"GIT_NO_REPLACE_OBJECTS=1"}
	if len(s.shallowEnds) > 0 {
		env = append(env, "GIT_SHALLOW_FILE="+filepath.Join(s.gitDir, "shallow"))
	}
	return env
}

// treeOf returns a commit, or the id of the empty tree if the commit is "".
func (s *scratchRepo) treeOf(commit string) string { return cmp.Or(commit, s.emptyTree) }

// ask calls git. It sets callErr if git ends without an exit status.
func (s *scratchRepo) ask(ctx context.Context, env []string, stdin io.Reader, args ...string) (string, error) {
	out, err := s.gitCaller.ask(ctx, env, stdin, args...)
	if err != nil && ExitCode(err) < 0 {
		s.callErr = err
	}
	return out, err
}

// contains reports whether other is commit, or is in the history of commit.
func (s *scratchRepo) contains(ctx context.Context, commit, other string) bool {
	if commit == other {
		return true
	}
	_, err := s.ask(ctx, nil, nil, "merge-base", "--is-ancestor", other, commit)
	return err == nil
}

// unrelated reports whether both states have commits, but none in common.
func (s *scratchRepo) unrelated(ctx context.Context, now, was *state) bool {
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

	theirs, base := tips(now), tips(was)
	if len(theirs) == 0 || len(base) == 0 {
		return false
	}

	for _, id := range theirs {
		out, err := s.ask(ctx, nil, nil, append([]string{"merge-base", id}, base...)...)
		const none = 1 // the exit status if there is no common commit; any other error means that objects are missing
		if err == nil && out != "" || err != nil && ExitCode(err) != none {
			return false
		}
	}

	return true
}

// findBroken adds to missing those of the commits in whose histories commits are missing, as after a git prune in a
// repository of which the objects of theirs are borrowed. The histories of the ids in whole are not read.
func (s *scratchRepo) findBroken(ctx context.Context, commits, whole []string, missing map[string]bool) {
	isBroken := func(ids ...string) bool {
		_, err := s.ask(ctx, nil, revisions(ids, whole), "rev-list", "--quiet", "--ignore-missing", "--stdin")
		return err != nil
	}

	if !isBroken(commits...) {
		return
	}
	for _, id := range commits {
		if isBroken(id) {
			missing[id] = true
		}
	}
}

// revisions returns the input of a git call with --stdin: the objects with the given ids and all that can be reached from
// them, except what can be reached from the ids in excluded.
func revisions(ids, excluded []string) io.Reader {
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(id + "\n")
	}
	for _, id := range excluded {
		text.WriteString("^" + id + "\n")
	}
	return strings.NewReader(text.String())
}

// commitsBetween returns the number of commits in the history of commit that are not in the histories of
// excluded, and the subjects of at most maxSubjects of them, the newest last. If there are more commits, a text
// with the number of those that are not listed comes first.
func (s *scratchRepo) commitsBetween(ctx context.Context, commit string, excluded ...string) (n int, subjects []string) {
	out, err := s.ask(ctx, nil, revisions([]string{commit}, excluded), "log", "--format=%s", "--ignore-missing", "-"+strconv.Itoa(maxSubjects), "--stdin")
	if err != nil || out == "" {
		return 0, nil
	}

	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if n = len(lines); n == maxSubjects {
		out, err = s.ask(ctx, nil, revisions([]string{commit}, excluded), "rev-list", "--count", "--ignore-missing", "--stdin")
		if n, _ = strconv.Atoi(strings.TrimSpace(out)); err != nil || n == 0 {
			return 0, nil
		}
	}

	slices.Reverse(lines)
	if n > len(lines) {
		subjects = append(subjects, fmt.Sprintf("%d more, and", n-len(lines)))
	}

	return n, append(subjects, lines...)
}

// A treeDiff has the paths that differ between two commits, each with its entries before and after; nil means that the
// path does not exist.
type treeDiff map[string][2]*IndexEntry

// diffTree compares two commits. "" is a commit without files.
func (s *scratchRepo) diffTree(ctx context.Context, from, to string) (treeDiff, error) {
	if from == to {
		return nil, nil
	}
	out, err := s.ask(ctx, nil, nil, "diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "--abbrev=64", s.treeOf(from), s.treeOf(to))
	return parseRawDiff(out), err
}

// compareMerge returns the changes from ours to a merged tree. fromBoth has the same paths: whether the merged tree
// differs from theirs, too.
func (s *scratchRepo) compareMerge(ctx context.Context, ours, theirs, tree string) (changes treeDiff, fromBoth map[string]bool, err error) {
	if changes, err = s.diffTree(ctx, ours, tree); err != nil {
		return nil, nil, err
	}
	fromTheirs, err := s.diffTree(ctx, theirs, tree)
	fromBoth = make(map[string]bool)
	for at := range changes {
		_, fromBoth[at] = fromTheirs[at]
	}

	return changes, fromBoth, err
}
