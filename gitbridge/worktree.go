package gitbridge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// attrWorktree is a working tree with only the files that git itself must see: the
// .gitignore and .gitattributes of the snapshot, the directories that they
// stand in, and the files that a filter has to convert. It lies in a temporary
// directory, and git is asked about it with the repository's settings, as far as
// these are trusted.
type attrWorktree struct {
	dir  string // has "tree", "git", and the index that does not exist
	root *os.Root
	env  []string
}

func newAttrWorktree(r *repository, set *settings) (*attrWorktree, error) {
	dir, err := os.MkdirTemp("", "amberfs-export-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	s := &attrWorktree{dir: dir}
	if err := s.prepare(r, set); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing a temporary directory: %w", err), os.RemoveAll(dir))
	}
	return s, nil
}

func (s *attrWorktree) prepare(r *repository, set *settings) (err error) {
	gitDir := r.gitDir
	if r.trust != trustAll {
		gitDir = filepath.Join(s.dir, "git")
		if err := set.writeGitDir(r, gitDir); err != nil {
			return err
		}
	}
	s.env = append(r.trust.env(), "GIT_DIR="+gitDir, "GIT_WORK_TREE="+s.workTree(), "GIT_INDEX_FILE="+filepath.Join(s.dir, "index"))
	if err := os.Mkdir(s.workTree(), 0o700); err != nil {
		return err
	}
	s.root, err = os.OpenRoot(s.workTree())
	return err
}

func (s *attrWorktree) close() {
	s.root.Close()
	os.RemoveAll(s.dir)
}

func (s *attrWorktree) workTree() string { return filepath.Join(s.dir, "tree") }

// mkdir makes a directory and those above it.
func (s *attrWorktree) mkdir(dir string) error {
	if err := s.root.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("copying what git must see: %w", err)
	}
	return nil
}

// write puts a file there.
func (s *attrWorktree) write(name string, r io.Reader) error {
	if err := s.mkdir(path.Dir(name)); err != nil {
		return err
	}
	f, err := s.root.Create(name)
	if err == nil {
		_, err = io.Copy(f, r)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("copying what git must see: %w", err)
	}
	return nil
}

// gitQuery is a git command that is asked about paths, a directory at a time.
type gitQuery struct {
	p   *process
	out *bufio.Reader
}

func newGitQuery(ctx context.Context, s *attrWorktree, args ...string) (*gitQuery, error) {
	p, err := start(ctx, s.workTree(), s.env, args...)
	if err != nil {
		return nil, err
	}
	return &gitQuery{p: p, out: bufio.NewReaderSize(p.out, 64<<10)}, nil
}

// ask sends paths and calls answer for each field that comes back, perPath
// fields a path.
func (o *gitQuery) ask(paths []string, perPath int, answer func(path, field int, text string)) error {
	var in bytes.Buffer
	for _, p := range paths {
		in.WriteString("./") // a colon in front would be magic
		in.WriteString(p)
		in.WriteByte(0)
	}
	// git answers while it reads: writing has to go on meanwhile, or both wait.
	sent := make(chan error, 1)
	go func() {
		_, err := o.p.in.Write(in.Bytes())
		sent <- err
	}()
	for i := range paths {
		for k := range perPath {
			text, err := o.out.ReadString(0)
			if err != nil {
				err = o.p.fail(err)
				if werr := <-sent; werr != nil {
					err = errors.Join(err, werr)
				}
				return err
			}
			answer(i, k, strings.TrimSuffix(text, "\x00"))
		}
	}
	if err := <-sent; err != nil {
		return o.p.fail(err)
	}
	return nil
}

func newIgnorer(ctx context.Context, s *attrWorktree) (*gitQuery, error) {
	return newGitQuery(ctx, s, "check-ignore", "--no-index", "--stdin", "-z", "--verbose", "--non-matching")
}

// ignored says for each path whether git add leaves it out.
func (o *gitQuery) ignored(paths []string) ([]bool, error) {
	const source, line, pattern, name = 0, 1, 2, 3
	out := make([]bool, len(paths))
	err := o.ask(paths, name+1, func(path, field int, text string) {
		if field == pattern {
			out[path] = text != "" && !strings.HasPrefix(text, "!")
		}
	})
	return out, err
}

var attributeNames = []string{"text", "crlf", "eol", "ident", "filter", "working-tree-encoding"}

func newAttributes(ctx context.Context, s *attrWorktree) (*gitQuery, error) {
	return newGitQuery(ctx, s, append([]string{"check-attr", "-z", "--stdin"}, attributeNames...)...)
}

// conversion is what git may do to a file's bytes before it stores them.
type conversion struct {
	always bool // a filter or another encoding
	crlf   bool // if the file has CR LF
	ident  bool // if the file has $Id
}

func (c conversion) any() bool { return c.always || c.crlf || c.ident }

// conversions returns what git may do to files. auto: core.autocrlf is on.
func (o *gitQuery) conversions(paths []string, auto bool) ([]conversion, error) {
	out := make([]conversion, len(paths))
	values := make([]string, len(attributeNames))
	err := o.ask(paths, 3*len(attributeNames), func(path, field int, text string) {
		if field%3 != 2 {
			return
		}
		values[field/3] = text
		if field == 3*len(attributeNames)-1 {
			out[path] = conversionOf(values, auto)
		}
	})
	return out, err
}

// conversionOf judges a path by the values of attributeNames. Where in doubt it
// says that there is one: git then decides.
func conversionOf(values []string, auto bool) conversion {
	given := func(v string) bool { return v != "unspecified" && v != "unset" }
	text, crlf, eol := values[0], values[1], values[2]
	c := conversion{
		always: given(values[4]) || given(values[5]),
		ident:  given(values[3]),
	}
	switch {
	case text == "unset":
	case text != "unspecified":
		c.crlf = true
	default:
		c.crlf = given(crlf) || given(eol) || crlf == "unspecified" && auto
	}
	return c
}
