package survive_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// A site is the directory of a system call in the root of a mount. The call's snapshots and forks have
// names that begin with the directory's.
type site string

func (s site) path(name string) string       { return filepath.Join(string(s), name) }
func (s site) control(name string) string    { return filepath.Join(string(s), "..", ".snapshots", name) }
func (s site) called(suffix string) string   { return filepath.Base(string(s)) + suffix }
func (s site) snapshot(suffix string) string { return s.control(s.called(suffix)) }
func (s site) fork(suffix string) string {
	return filepath.Join(string(s), "..", ".forks", s.called(suffix))
}

// stands makes the snapshot "-a" of the directory as setUp filled it, and the snapshot "-b" of a changed one.
func (s site) stands() error {
	return errors.Join(
		unix.Mkdir(s.snapshot("-a"), 0o755),
		os.WriteFile(s.path("f"), []byte("changed"), 0), os.Remove(s.path("g")), os.Rename(s.path("d"), s.path("n")),
		unix.Mkdir(s.snapshot("-b"), 0o755),
		os.WriteFile(s.path("f"), []byte("changed again"), 0))
}

// onSnapshots is a system call that is made on the mount of a killed daemon, and, to compare, on another
// mount. request is that of a [systemCall].
func onSnapshots(name, request string, call func(s site) error) systemCall {
	return systemCall{name: name, request: request, make: func(dir string, ready func()) error {
		if err := site(dir).stands(); err != nil {
			return err
		}
		ready()
		return call(site(dir))
	}}
}

// onFork is onSnapshots with a fork "-f".
func onFork(name, request string, call func(s site) error) systemCall {
	return systemCall{name: name, request: request, make: func(dir string, ready func()) error {
		s := site(dir)
		if err := errors.Join(s.stands(), unix.Mkdir(s.fork("-f"), 0o755)); err != nil {
			return err
		}
		_, _ = os.ReadDir(s.fork("-f"))
		ready()
		return call(s)
	}}
}

// tell writes a command to a control file. A file that a crash has outdated is opened again: then the
// command was not carried out.
func tell(file, text string) (err error) {
	for range 3 {
		if err = os.WriteFile(file, []byte(text), 0o600); !errors.Is(err, unix.ESTALE) {
			return err
		}
	}
	return err
}

// errLost is the result of a command that was carried out and answered, if the daemon that knew its result
// died before the result was read.
var errLost = errors.New("the result is lost")

// answer is what the caller's last command to a control file returned, without what differs each time. A
// file that a crash has outdated is opened again.
func (s site) answer(name string, err error) error {
	b, readErr := os.ReadFile(s.control(name))
	for range 2 {
		if !errors.Is(readErr, unix.ESTALE) {
			break
		}
		b, readErr = os.ReadFile(s.control(name))
	}
	if err == nil && errors.Is(readErr, unix.EIO) {
		return errLost
	}

	return result(errors.Join(err, readErr), s.plain(string(b)))
}

var changing = regexp.MustCompile(`"ms":[0-9.]+|"seq":[0-9]+|cp-[0-9]+|\t(-|[0-9a-f]{12})\t|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?`)

func (s site) plain(text string) string { return changing.ReplaceAllString(text, " … ") }

// snapshotCalls are those of .snapshots and .forks.
var snapshotCalls = []systemCall{
	onSnapshots("make a snapshot", "", func(s site) error { return unix.Mkdir(s.snapshot("-c"), 0o755) }),
	onSnapshots("make a snapshot that is there", "", func(s site) error { return unix.Mkdir(s.snapshot("-a"), 0o755) }),
	onSnapshots("delete a snapshot", "", func(s site) error { return unix.Rmdir(s.snapshot("-a")) }),
	onSnapshots("rename a snapshot", "", func(s site) error { return unix.Rename(s.snapshot("-a"), s.snapshot("-c")) }),
	onSnapshots("rename a snapshot to one that is there", "", func(s site) error {
		return unix.Rename(s.snapshot("-a"), s.snapshot("-b"))
	}),
	onSnapshots("restore", "", func(s site) error {
		return s.answer("restore", unix.Rename(s.control("restore"), s.control("restore@"+s.called("-a"))))
	}),
	{name: "restore, and take it back", make: func(dir string, ready func()) error {
		s := site(dir)
		if err := errors.Join(s.stands(), unix.Rename(s.control("restore"), s.control("restore@"+s.called("-a")))); err != nil {
			return err
		}
		ready()
		return unix.Rename(s.control("restore"), s.control("restore@undo"))
	}},
	onSnapshots("write to restore", "WRITE", func(s site) error {
		return s.answer("restore", tell(s.control("restore"), s.called("-a ")+s.called("/g\n")))
	}),
	onSnapshots("write to create", "WRITE", func(s site) error {
		return s.answer("create", tell(s.control("create"), s.called("-c with a message\n")))
	}),
	onSnapshots("save create by a rename", "RENAME", func(s site) error {
		tmp := s.control("create.tmp." + s.called("1"))
		for range 3 {
			err := tell(tmp, s.called("-c saved\n"))
			if err == nil {
				err = unix.Rename(tmp, s.control("create"))
			}
			// What died with the daemon is not there any more.
			if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) {
				return s.answer("create", err)
			}
		}
		return errors.New("lost each time")
	}),
	onSnapshots("write to fork", "WRITE", func(s site) error {
		return s.answer("fork", tell(s.control("fork"), s.called("-a ")+s.called("-f\n")))
	}),
	onSnapshots("snapshot by a private file", "WRITE", func(s site) error {
		file := s.control("call." + s.called("1"))
		err := tell(file, fmt.Sprintf(`{"op":"snapshot","name":%q}`, s.called("-c")))
		if removed := os.Remove(file); !errors.Is(removed, fs.ErrNotExist) { // it has no name after a crash
			err = errors.Join(err, removed)
		}
		return err
	}),
	onSnapshots("ask by call", "WRITE", func(s site) error {
		for range 3 {
			err := tell(s.control("call"), `{"op":"list"}`)
			if !errors.Is(err, unix.EIO) { // a question may be asked again
				b, readErr := os.ReadFile(s.control("call"))
				return result(errors.Join(err, readErr), strings.Contains(string(b), s.called("-a")))
			}
		}
		return errors.New("no answer")
	}),
	onSnapshots("list snapshots", "READDIR", func(s site) error {
		all, err := os.ReadDir(s.control("."))
		var names []string
		for _, e := range all {
			if strings.HasPrefix(e.Name(), s.called("-")) {
				names = append(names, e.Name())
			}
		}
		return result(err, names)
	}),
	onSnapshots("read a snapshot", "READ", func(s site) error {
		f, err := os.Open(filepath.Join(s.snapshot("-a"), s.called("/g")))
		if err != nil {
			return err
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		return result(err, len(b))
	}),
	onSnapshots("read a patch", "READ", func(s site) error {
		for range 3 {
			b, err := os.ReadFile(s.control("stat@" + s.called("-a")))
			if !errors.Is(err, unix.ESTALE) {
				return result(err, s.plain(string(b)))
			}
		}
		return errors.New("outdated each time")
	}),
	onSnapshots("read a link to a snapshot", "READLINK", func(s site) error {
		to, err := os.Readlink(s.control("latest"))
		return result(err, to)
	}),
	onSnapshots("write to a snapshot", "", func(s site) error {
		return unix.Unlink(filepath.Join(s.snapshot("-a"), s.called("/g")))
	}),
	onSnapshots("fork", "", func(s site) error { return unix.Mkdir(s.fork("-f"), 0o755) }),
	onFork("end a fork", "", func(s site) error { return unix.Rmdir(s.fork("-f")) }),
	onFork("write in a fork", "", func(s site) error {
		return unix.Rename(filepath.Join(s.fork("-f"), s.called("/f")), filepath.Join(s.fork("-f"), s.called("/n/new")))
	}),
	onFork("merge a fork by call", "WRITE", func(s site) error {
		err := os.Rename(filepath.Join(s.fork("-f"), s.called("/f")), filepath.Join(s.fork("-f"), s.called("/n/new")))
		if err == nil {
			err = tell(s.control("call"), fmt.Sprintf(`{"op":"merge","fork":%q}`, s.called("-f")))
		}
		if errors.Is(err, unix.EIO) { // it was carried out, and its answer is lost
			return nil
		}
		return err
	}),
	onFork("exchange in a fork", "", func(s site) error {
		in := func(name string) string { return filepath.Join(s.fork("-f"), s.called(name)) }
		return unix.Renameat2(unix.AT_FDCWD, in("/f"), unix.AT_FDCWD, in("/n/f"), unix.RENAME_EXCHANGE)
	}),
}

// snapshotsOf describes the snapshots and forks of a call, and their trees.
func snapshotsOf(t *testing.T, s site) (all []string) {
	list, err := os.ReadFile(s.control("list"))
	must.OK(t, err)
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, s.called("-")) {
			all = append(all, s.plain(line))
		}
	}
	for _, dir := range []string{s.control("."), filepath.Join(string(s), "..", ".forks")} {
		entries, err := os.ReadDir(dir)
		must.OK(t, err)
		for _, e := range entries {
			if tree := filepath.Join(dir, e.Name(), filepath.Base(string(s))); strings.HasPrefix(e.Name(), s.called("-")) {
				all = append(all, e.Name())
				if _, err := os.Stat(tree); !errors.Is(err, fs.ErrNotExist) {
					all = append(all, treeOf(t, tree)...)
				}
			}
		}
	}
	return all
}

// removeSnapshots removes a call's forks and snapshots.
func removeSnapshots(t *testing.T, s site) {
	for _, dir := range []string{filepath.Join(string(s), "..", ".forks"), s.control(".")} {
		entries, err := os.ReadDir(dir)
		must.OK(t, err)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), s.called("-")) {
				must.OK(t, unix.Rmdir(filepath.Join(dir, e.Name())))
			}
		}
	}
}
