package gitbridge

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// checkout feeds the files of a commit as git checkout would write them.
type checkout struct {
	ctx   context.Context
	repo  *repository
	o     ImportOptions
	temp  string
	mtime int64
}

// feed returns the index of the commit, without stat data.
func (c *checkout) feed(g *guard, commit string) ([]byte, error) {
	index := filepath.Join(c.temp, "index")
	env := []string{"GIT_INDEX_FILE=" + index}
	// The plain old format: Index patches numbers at fixed places.
	_, err := c.repo.git(c.ctx, env, "-c", "index.version=2", "-c", "feature.manyFiles=false", "-c", "index.skipHash=false",
		"-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", "-c", "index.sparse=false", "read-tree", commit)
	if err != nil {
		return nil, err
	}
	entries, err := c.repo.listTree(c.ctx, commit)
	if err != nil {
		return nil, err
	}
	plain, converted, err := c.split(entries, env)
	if err != nil {
		return nil, err
	}
	if err := (&treeFeeder{repo: c.repo, mtime: c.mtime, g: g, o: c.o}).feed(c.ctx, plain); err != nil {
		return nil, err
	}
	if err := c.convert(g, converted, env); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(index)
	if err != nil {
		return nil, fmt.Errorf("reading the new index: %w", err)
	}
	return data, nil
}

// split separates the files that git would change on their way out.
func (c *checkout) split(entries []treeEntry, env []string) (plain, converted []treeEntry, err error) {
	set, err := c.repo.settings(c.ctx)
	if err != nil {
		return nil, nil, err
	}
	// Line ends are made CR LF only if something says so.
	crlf := set.flag("core.autocrlf", false) && set.values["core.autocrlf"] != "input" || strings.EqualFold(set.values["core.eol"], "crlf")
	rules := crlf || exist(c.repo.attributeFiles(set))
	for _, e := range entries {
		rules = rules || filepath.Base(e.path) == ".gitattributes"
	}
	if !rules {
		return entries, nil, nil
	}
	p, err := start(c.ctx, c.temp, append(env, "GIT_DIR="+c.repo.gitDir, "GIT_WORK_TREE="+c.temp),
		append([]string{"check-attr", "-z", "--stdin", "--cached"}, attributeNames...)...)
	if err != nil {
		return nil, nil, err
	}
	var files []treeEntry
	var names []string
	for _, e := range entries {
		if e.mode&unix.S_IFMT != unix.S_IFREG {
			plain = append(plain, e)
			continue
		}
		files, names = append(files, e), append(names, e.path)
	}
	oracle := newOracleOf(p)
	values := make([]string, len(attributeNames))
	err = oracle.ask(names, 3*len(attributeNames), func(i, field int, text string) {
		if field%3 != 2 {
			return
		}
		values[field/3] = text
		if field != 3*len(attributeNames)-1 {
			return
		}
		if changedOnCheckout(values, crlf) {
			converted = append(converted, files[i])
		} else {
			plain = append(plain, files[i])
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("asking git for attributes: %w", err)
	}
	if err := oracle.close(); err != nil {
		return nil, nil, fmt.Errorf("asking git for attributes: %w", err)
	}
	// Directories come before what is in them again.
	slices.SortFunc(plain, func(a, b treeEntry) int { return strings.Compare(a.path, b.path) })
	return plain, converted, nil
}

// changedOnCheckout judges by the values of attributeNames. In doubt it says
// yes, and git decides.
func changedOnCheckout(values []string, crlf bool) bool {
	given := func(v string) bool { return v != "unspecified" && v != "unset" }
	text, eol := values[0], values[2]
	if given(values[3]) || given(values[4]) || given(values[5]) {
		return true
	}
	if text == "unset" {
		return false
	}
	return crlf || eol == "crlf"
}

// convert lets git write the files that it changes to a directory, and feeds
// them from there.
func (c *checkout) convert(g *guard, entries []treeEntry, env []string) error {
	if len(entries) == 0 {
		return nil
	}
	dir := filepath.Join(c.temp, "converted")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	var names bytes.Buffer
	for _, e := range entries {
		names.WriteString(e.path)
		names.WriteByte(0)
	}
	_, err := run(c.ctx, dir, append(slices.Concat(env, userLocale()), "GIT_DIR="+c.repo.gitDir, "GIT_WORK_TREE="+dir), &names,
		"checkout-index", "-z", "--stdin")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("reading the converted files: %w", err)
	}
	defer root.Close()
	for _, e := range entries {
		if err := c.converted(g, root, e); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkout) converted(g *guard, root *os.Root, e treeEntry) error {
	name, err := clean(e.path)
	if err != nil {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return fmt.Errorf("reading the converted %q: %w", name, reason(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading the converted %q: %w", name, reason(err))
	}
	mode := uint32(unix.S_IFREG) | e.mode&0o100
	return g.file(name, c.o.gitMeta(mode, c.mtime), info.Size(), &wholeReader{r: f, left: info.Size()})
}
