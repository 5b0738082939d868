package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/scratch"
)

// attrWorktree is a working tree in a temporary directory, with only the files that git itself must
// read: the .gitignore and .gitattributes files of the snapshot, and files that git has to convert. git
// runs there with those settings of the repository that the export trusts.
type attrWorktree struct {
	temp   *scratch.Dir // contains the working tree "tree" and the git directory "git"; the file "index" in it never exists
	meter  *meter
	root   *os.Root
	env    []string
	config []string // options of git calls: -c SETTING=VALUE

	commands map[string]*process // the commands of ask, by their names
}

func newAttrWorktree(ctx context.Context, r *repository, set *settings, m *meter) (*attrWorktree, error) {
	temp, err := scratch.New(scratch.Export)
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}

	s := &attrWorktree{temp: temp, meter: m, commands: make(map[string]*process)}
	if err := s.prepare(ctx, r, set); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing a temporary directory: %w", err), temp.Remove())
	}

	return s, nil
}

func (s *attrWorktree) prepare(ctx context.Context, r *repository, set *settings) (err error) {
	gitDir := r.gitDir
	if r.trust != trustAll {
		gitDir = s.pathOf("git")
		if err := s.copySettings(ctx, r, set, gitDir); err != nil {
			return err
		}
	}

	for key, name := range userFiles {
		file := s.pathOf(name)
		if err := os.WriteFile(file, []byte(set.rules[name]), 0o600); err != nil {
			return err
		}

		s.config = append(s.config, "-c", key+"="+file)
	}

	s.env = append(r.trust.env(), "GIT_DIR="+gitDir, "GIT_WORK_TREE="+s.workTree(), "GIT_INDEX_FILE="+s.pathOf("index"))
	if err := os.Mkdir(s.workTree(), 0o700); err != nil {
		return err
	}

	s.root, err = os.OpenRoot(s.workTree())
	return err
}

// plainKeys are settings on which the conversion of files depends and that name neither a program
// nor a file.
var plainKeys = []string{"core.autocrlf", "core.eol", "core.ignorecase", "core.checkroundtripencoding", "core.sharedrepository"}

// copySettings makes a git directory at dir with the rules of a repository, and adds the
// repository's plain settings to config. With trustNone it copies no rules.
func (s *attrWorktree) copySettings(ctx context.Context, r *repository, set *settings, dir string) error {
	for _, key := range plainKeys {
		if value, ok := set.values[key]; ok {
			s.config = append(s.config, "-c", key+"="+value)
		}
	}

	if err := initBare(ctx, dir, r.format); err != nil || r.trust == trustNone {
		return err
	}

	err := os.Mkdir(filepath.Join(dir, "info"), 0o700)
	for _, name := range []string{infoAttributes, infoExclude} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(set.rules[name]), 0o600)
		}
	}

	return err
}

// close ends the git commands of the worktree and removes the worktree.
func (s *attrWorktree) close() {
	for _, p := range s.commands {
		p.close()
	}
	s.root.Close()
	_ = s.temp.Remove() // after an error, the next export removes the directory
}

func (s *attrWorktree) pathOf(name string) string { return filepath.Join(s.temp.Path, name) }

func (s *attrWorktree) workTree() string { return s.pathOf("tree") }

// mkdir makes a directory and its parents.
func (s *attrWorktree) mkdir(dir string) error {
	if err := s.root.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("copying what git must see: %w", err)
	}
	return nil
}

// write creates a file. The meter is charged twice: for this copy and for git's object.
func (s *attrWorktree) write(name string, r io.Reader) error {
	if err := s.mkdir(path.Dir(name)); err != nil {
		return err
	}

	f, err := s.root.Create(name)
	if err == nil {
		_, err = io.Copy(meteredWriter{f, func(n int64) error { return s.meter.chargeTemporary(2 * n) }}, r)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("copying what git must see: %w", err)
	}

	return nil
}

// ask sends paths to a git command that answers perPath fields for each path, and calls answer for
// each field. path is an index in paths. The first call starts the command in the working tree.
func (s *attrWorktree) ask(ctx context.Context, args, paths []string, perPath int, answer func(path, field int, text string)) error {
	p := s.commands[args[0]]
	if p == nil {
		var err error
		if p, err = startGit(ctx, s.workTree(), s.env, slices.Concat(s.config, args)...); err != nil {
			return err
		}
		s.commands[args[0]] = p
	}

	var in bytes.Buffer
	for _, p := range paths {
		in.WriteString("./") // a path that begins with a colon would be pathspec magic
		in.WriteString(p)
		in.WriteByte(0)
	}

	return p.exchange(len(paths)*perPath, 0, func() error {
		_, err := p.in.Write(in.Bytes())
		return err
	}, func(i int, text string) { answer(i/perPath, i%perPath, text) })
}

// askIgnored reports for each path whether git add ignores it.
func (s *attrWorktree) askIgnored(ctx context.Context, paths []string) ([]bool, error) {
	const source, line, pattern, name = 0, 1, 2, 3
	ignored := make([]bool, len(paths))
	err := s.ask(ctx, ignoreArgs, paths, name+1, func(i, field int, text string) {
		if field == pattern {
			ignored[i] = text != "" && !strings.HasPrefix(text, "!")
		}
	})
	if err != nil {
		return nil, fmt.Errorf("asking git what is ignored: %w", err)
	}
	return ignored, nil
}

// Arguments of git: ignoreArgs for the paths that git add leaves out, attributeArgs for the attributes of paths.
var (
	ignoreArgs     = []string{"check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching"}
	attributeNames = []string{"text", "crlf", "eol", "ident", "filter", "working-tree-encoding"}
	attributeArgs  = append([]string{"check-attr", "-z", "--stdin"}, attributeNames...)
)

// conversion is the kind of change that git makes to a file's bytes before it stores them.
type conversion int

const (
	unconverted conversion = iota
	lineEnds               // CR LF to LF
	converted              // $Id$, a filter, or a different encoding
)

// conversionOf returns the conversion of a path. values are the values of attributeNames, autoCRLF is
// core.autocrlf. Whether git converts the file can also depend on the contents. Then conversionOf returns the
// conversion that is possible, and git decides later.
func conversionOf(values []string, autoCRLF bool) conversion {
	given := func(v string) bool { return v != "unspecified" && v != "unset" }
	text, crlf, eol := values[0], values[1], values[2]
	switch {
	case slices.ContainsFunc(values[3:], given):
		return converted
	case given(text), text == "unspecified" && (given(crlf) || given(eol) || crlf == "unspecified" && autoCRLF):
		return lineEnds
	}

	return unconverted
}
