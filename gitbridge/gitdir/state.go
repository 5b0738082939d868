package gitdir

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/plainfile"
)

// Files are the files of a git directory, by their paths in it.
type Files interface {
	// Read returns a file, or an fs.ErrNotExist if there is no regular file.
	Read(name string) ([]byte, error)
	// List returns the entries of a directory, none if the path is not a directory.
	List(name string) ([]DirEntry, error)
	// Open opens a file of any size. The caller closes it.
	Open(name string) (io.ReadCloser, error)
	// Stat returns the type of an entry, such as unix.S_IFREG, and the time of its last change in nanoseconds. If
	// there is no such entry, it returns zeros.
	Stat(name string) (kind uint32, mtime int64, err error)
}

// A DirEntry is an entry of a directory.
type DirEntry struct {
	Name  string
	IsDir bool
}

// IsGitDir reports whether a directory is a git directory.
func IsGitDir(f Files) (bool, error) {
	for name, want := range map[string]uint32{"HEAD": unix.S_IFREG, "objects": unix.S_IFDIR, "refs": unix.S_IFDIR} {
		if kind, _, err := f.Stat(name); err != nil || kind != want {
			return false, err
		}
	}
	return true, nil
}

// A Repo is a git directory on this machine.
type Repo struct {
	Dir      string // the git directory of this working tree
	Common   string // the git directory that all working trees share; often Dir
	Worktree string // the working tree; "" if the repository has none on this machine
}

func (r *Repo) pathOf(name string) string {
	if IsPrivate(name) {
		return filepath.Join(r.Dir, name)
	}
	return filepath.Join(r.Common, name)
}

// setting returns the value of a setting that all working trees share, "" if it is not set.
func (r *Repo) setting(name string) string { return configOf(r.Common).lastValue(name) }

func (r *Repo) Read(name string) ([]byte, error) {
	b, err := readFile(r.pathOf(name))
	if errors.Is(err, plainfile.ErrUnfit) {
		err = fs.ErrNotExist
	}
	return b, err
}

func (r *Repo) List(name string) (out []DirEntry, err error) {
	for _, top := range slices.Compact([]string{r.Dir, r.Common}) {
		dir := filepath.Join(top, name)
		entries, _ := os.ReadDir(dir) // none if the path is not a directory

		for _, e := range entries {
			n := DirEntry{e.Name(), e.IsDir()}
			isHere := n.IsDir || r.pathOf(path.Join(name, n.Name)) == filepath.Join(dir, n.Name) // a directory can have files of both
			if isHere && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}

	return out, nil
}

func (r *Repo) Open(name string) (io.ReadCloser, error) { return os.Open(r.pathOf(name)) }

func (r *Repo) Stat(name string) (kind uint32, mtime int64, err error) {
	var st unix.Stat_t
	err = unix.Lstat(r.pathOf(name), &st) // in case of an error, st is zero
	return st.Mode & unix.S_IFMT, st.Mtim.Nano(), errs.Ignore(err, fs.ErrNotExist)
}

// A state is the state of a git directory without its objects. Values of refs are object ids, or "ref: NAME".
type state struct {
	idLen          int               // in bytes
	storage        string            // extensions.refStorage, "" for files
	wholeFiles     map[string][]byte // the files of wholeDirs
	head           string
	refs           map[string]string
	index          []byte
	indexFile      []byte                     // the bytes of the index file; index differs if it was a split index, see joinSplit
	indexMtime     int64                      // time of the index file, in nanoseconds
	entriesParsed  bool                       // parsedEntries and indexErr are set from index
	parsedEntries  []IndexEntry               // the entries of index, see parseEntries
	indexErr       error                      // the reason why the entries cannot be read
	operationFiles map[string][]byte          // git's own files of operations in progress, see operationNames, and the values of private refs, by path
	sparseFile     []byte                     // info/sparse-checkout: the patterns of a sparse checkout
	shallowFile    []byte                     // shallow: the commits at which the history is cut off
	worktrees      map[string]*linkedWorktree // by id
}

// ErrUnsupported means that amberfs cannot merge a git directory of this kind.
var ErrUnsupported = errors.New("a git directory of a kind that amberfs does not bring together")

// readState reads the state of a git directory.
func readState(f Files) (*state, error) {
	s := &state{refs: make(map[string]string), worktrees: make(map[string]*linkedWorktree)}
	text, err := f.Read("config")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	c := parseConfig(string(text))
	s.idLen, s.storage = idLen(c), c.lastValue("extensions.refstorage")
	if s.head, err = readValue(f, "HEAD"); err != nil {
		return nil, err
	}

	if packed, err := f.Read("packed-refs"); err == nil {
		for l := range strings.Lines(string(packed)) {
			if id, name, ok := strings.Cut(strings.TrimSpace(l), " "); ok && s.isID(id) && strings.HasPrefix(name, "refs/") {
				s.refs[name] = strings.ToLower(id)
			}
		}
	}

	if err := s.readLooseRefs(f); err != nil {
		return nil, err
	}
	if _, s.indexMtime, err = f.Stat("index"); err != nil { // read before the index, so that the time is not newer than the index
		return nil, err
	}

	for name, to := range map[string]*[]byte{"index": &s.index, "info/sparse-checkout": &s.sparseFile, "shallow": &s.shallowFile} {
		if *to, err = f.Read(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}

	s.indexFile = s.index
	if s.operationFiles, err = readFiles(f, operationNames...); err != nil {
		return nil, err
	}
	for name, value := range s.refs {
		if IsPrivate(name) {
			s.operationFiles[name] = []byte(value)
		}
	}

	if s.wholeFiles, err = readFiles(f, wholeDirs...); err != nil {
		return nil, err
	}

	trees, err := f.List("worktrees")
	for _, n := range trees {
		if tree, err := s.readWorktree(f, path.Join("worktrees", n.Name)); err != nil {
			return nil, err
		} else if tree != nil {
			s.worktrees[n.Name] = tree
		}
	}

	return s, err
}

func (s *state) isID(text string) bool {
	return len(text) == 2*s.idLen && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// maxDepth limits the depth of the directories of refs and of operations in progress.
const maxDepth = 40

// readLooseRefs reads the loose refs, which are files.
func (s *state) readLooseRefs(f Files) error {
	return eachFile(f, "refs", 0, func(name string) error {
		value, err := readValue(f, name)
		if err == nil && !strings.HasSuffix(name, ".lock") && (s.isID(value) || strings.HasPrefix(value, "ref: ")) {
			s.refs[name] = value
		}
		return nil
	})
}

// readFiles reads the files at or below some paths. It returns them by path.
func readFiles(f Files, names ...string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, name := range names {
		err := eachFile(f, name, 0, func(name string) error {
			b, err := f.Read(name)
			if err == nil {
				files[name] = b
			}
			return errs.Ignore(err, fs.ErrNotExist)
		})
		if err != nil {
			return nil, err
		}
	}

	return files, nil
}

// eachFile calls fn with the path of each file, and of each empty directory, at or below a path.
func eachFile(f Files, name string, depth int, fn func(name string) error) error {
	names, err := f.List(name)
	if err != nil || depth > maxDepth {
		return err
	}
	if len(names) == 0 {
		return fn(name)
	}

	for _, n := range names {
		at := path.Join(name, n.Name)
		if n.IsDir {
			err = eachFile(f, at, depth+1, fn)
		} else {
			err = fn(at)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// readOptional reads a file, nil if there is none.
func readOptional(f Files, name string) []byte {
	if f == nil {
		return nil
	}
	b, err := f.Read(name)
	if err != nil {
		return nil
	}
	return b
}

// readValue reads a file with one value: HEAD, or a ref.
func readValue(f Files, name string) (string, error) {
	b, err := f.Read(name)
	return refValue(b), err
}

func refValue(b []byte) string {
	text := strings.TrimSpace(string(b[:min(len(b), maxSmallFileBytes)]))
	if target, ok := strings.CutPrefix(text, "ref:"); ok {
		return "ref: " + strings.TrimSpace(target)
	}
	return strings.ToLower(text)
}

// resolve follows a value of HEAD or of a ref to the id of an object, "" for none.
func (s *state) resolve(value string) string {
	return resolve(value, func(name string) string { return s.refs[name] })
}

// resolve follows a value of HEAD or of a ref to the id of an object, "" for none. ref returns the value of a ref.
func resolve(value string, ref func(name string) string) string {
	for range 5 { // git follows symbolic refs to this depth
		name, isRef := strings.CutPrefix(value, "ref: ")
		if !isRef {
			return value
		}
		value = ref(name)
	}
	return ""
}

// keysOf returns the keys of two maps in order.
func keysOf[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// sameOperation reports whether two states have the same operations in progress, with equal files and private refs.
func (s *state) sameOperation(o *state) bool {
	return maps.EqualFunc(s.operationFiles, o.operationFiles, bytes.Equal)
}

// sameIndex reports whether the indexes of two states have the same entries. It ignores the times and sizes of files.
func (s *state) sameIndex(o *state) bool {
	if bytes.Equal(s.index, o.index) {
		return true
	}
	return s.parseEntries() == nil && o.parseEntries() == nil && slices.EqualFunc(s.parsedEntries, o.parsedEntries, IndexEntry.same)
}

// hasConflicts reports whether an index has a conflict.
func (s *state) hasConflicts() bool {
	return slices.ContainsFunc(s.entries(), func(e IndexEntry) bool { return e.Stage > 0 })
}

// sameSparse reports whether two states have the same sparse checkout.
func (s *state) sameSparse(o *state) bool {
	skipped := func(s *state) (paths []string) {
		for _, e := range s.entries() {
			if e.Skip {
				paths = append(paths, e.Path)
			}
		}
		return paths
	}
	return bytes.Equal(s.sparseFile, o.sparseFile) && slices.Equal(skipped(s), skipped(o))
}

// same reports whether two entries are equal, apart from the times and sizes of files.
func (e IndexEntry) same(o IndexEntry) bool {
	return e.Path == o.Path && e.Mode == o.Mode && e.ID == o.ID && e.Stage == o.Stage && e.Skip == o.Skip
}

// same reports whether two states are equal, apart from logs.
func (s *state) same(o *state) bool {
	if s.head != o.head || !maps.Equal(s.refs, o.refs) || !maps.EqualFunc(s.wholeFiles, o.wholeFiles, bytes.Equal) || !s.sameIndex(o) || !s.sameOperation(o) || !bytes.Equal(s.sparseFile, o.sparseFile) || !bytes.Equal(s.shallowFile, o.shallowFile) {
		return false
	}
	return maps.EqualFunc(s.worktrees, o.worktrees, (*linkedWorktree).same)
}

// checkRefStorage returns ErrUnsupported if the refs are not stored in files.
func (s *state) checkRefStorage() error {
	if s.storage == "" || s.storage == "files" {
		return nil
	}
	return fmt.Errorf("%w: its refs are in a %s", ErrUnsupported, s.storage)
}

// linkedRemedy is the advice for a user who has linked two repositories by hand, as git-new-workdir does.
const linkedRemedy = "; `git worktree add` or a clone in its place works, and so does `git push` in the workspace"

// checkWhole returns ErrUnsupported if git would write parts of the repository to another place, such as
// another repository: the author of a git directory chooses the targets of its commondir and its symbolic
// links.
func (r *Repo) checkWhole() error {
	if _, err := os.Lstat(filepath.Join(r.Common, "commondir")); err == nil {
		return fmt.Errorf("%w: its commondir names another one"+linkedRemedy, ErrUnsupported)
	}

	for _, name := range []string{"objects", "refs", "logs", "info", "index", "packed-refs", "shallow"} {
		root := r.pathOf(name)
		err := filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case e.Type()&fs.ModeSymlink != 0:
				return fmt.Errorf("%w: its %s is a link"+linkedRemedy, ErrUnsupported, name+strings.TrimPrefix(at, root))
			case name == "objects" && e.IsDir() && filepath.Dir(at) == root:
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// SameState reports whether two states of a git directory are equal, except for objects and logs. It returns false if
// one of them is not a git directory.
func SameState(base, now Files) (bool, error) {
	for _, f := range []Files{base, now} {
		if is, err := IsGitDir(f); err != nil || !is {
			return false, err
		}
	}
	return (&Merge{Base: base, Theirs: now}).Same()
}

// SameLog reports whether the logs of HEAD of two states have the same last line.
func SameLog(base, now Files) bool { return bytes.Equal(lastLine(base), lastLine(now)) }

// lastLine returns the last line of the log of HEAD. The other lines are not compared, because a gc removes
// lines from the beginning of the log.
func lastLine(f Files) []byte {
	log := bytes.TrimSuffix(readOptional(f, "logs/HEAD"), []byte("\n"))
	return log[bytes.LastIndexByte(log, '\n')+1:]
}

// emptyTreeID returns the id of the tree without entries.
func (s *state) emptyTreeID() string {
	if s.idLen == sha1.Size {
		return "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	}
	return "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
}
