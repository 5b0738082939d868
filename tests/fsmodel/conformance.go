package fsmodel

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// A rule is an operation on a small tree, and what it returns. What it leaves is said by the model.
type rule struct {
	tree string // operations that make the tree, as parse reads them
	op   string
	want error
}

var (
	longest = strings.Repeat("n", maxName)
	tooLong = longest + "n"
)

// rules are all operations with their corners, in the order of the Kinds.
var rules = []rule{
	{"", "create f 644", nil},
	{"mkdir d 755", "create d/f 600", nil},
	{"", "create " + longest + " 644", nil},
	{"", "create " + tooLong + " 644", unix.ENAMETOOLONG},
	{"", "create d/" + tooLong + " 644", unix.ENOENT},
	{"create f 644", "create f 600", unix.EEXIST},
	{"mkdir d 755", "create d 644", unix.EEXIST},
	{"symlink s nowhere", "create s 644", unix.EEXIST},
	{"", "create d/f 644", unix.ENOENT},
	{"create f 644", "create f/g 644", unix.ENOTDIR},
	{"symlink s nowhere", "create s/f 644", unix.ENOENT},

	{"create f 644", "write f 0 5", nil},
	{"create f 644; write f 0 10", "write f 3 4", nil},
	{"create f 644; write f 0 10", "write f 7 20", nil},
	{"create f 644", "write f 100000 5", nil},
	{"create f 644; write f 0 100", "write f 200000 200000", nil},
	{"create f 644; link f g", "write g 0 5", nil},
	{"create f 644; write f 0 5", "write f 2 0", nil},
	{"mkdir d 755", "write d 0 5", unix.EISDIR},
	{"", "write f 0 5", unix.ENOENT},
	{"symlink s nowhere", "write s 0 5", unix.ENOENT},
	{"create f 644", "write f/g 0 5", unix.ENOTDIR},

	{"create f 644", "append f 5", nil},
	{"create f 644; write f 0 4095", "append f 10", nil},
	{"create f 644; truncate f 70000", "append f 3", nil},
	{"mkdir d 755", "append d 5", unix.EISDIR},

	{"create f 644; write f 0 100000", "truncate f 0", nil},
	{"create f 644; write f 0 100000", "truncate f 4097", nil},
	{"create f 644; write f 0 10", "truncate f 10", nil},
	{"create f 644; write f 0 10", "truncate f 1000000", nil},
	{"create f 644; write f 0 10; truncate f 3", "truncate f 10", nil},
	{"mkdir d 755", "truncate d 0", unix.EISDIR},
	{"", "truncate f 0", unix.ENOENT},

	{"create f 644; write f 0 100000", "punch f 10 5000", nil},
	{"create f 644; write f 0 100", "punch f 50 1000", nil},
	{"create f 644; write f 0 100", "punch f 1000 10", nil},
	{"create f 644; write f 0 100; link f g", "punch g 0 100", nil},
	{"mkdir d 755", "punch d 0 1", unix.EISDIR},

	{"create f 644; write f 0 100000; create g 644", "copy f 0 g 0 100000", nil},
	{"create f 644; write f 0 100; create g 644; write g 0 300", "copy f 10 g 100 50", nil},
	{"create f 644; write f 0 100; create g 644", "copy f 50 g 5000 1000", nil},
	{"create f 644; write f 0 100; create g 644", "copy f 100 g 0 10", nil},
	{"create f 644; write f 0 100", "copy f 0 f 100 100", nil},
	{"create f 644; write f 0 100", "copy f 0 f 50 100", unix.EINVAL},
	{"create f 644; write f 0 100; link f g", "copy f 0 g 99 100", unix.EINVAL},

	{"", "mkdir d 755", nil},
	{"mkdir d 755", "mkdir d/e 700", nil},
	{"mkdir d 755", "mkdir d 700", unix.EEXIST},
	{"create f 644", "mkdir f 755", unix.EEXIST},
	{"symlink s nowhere", "mkdir s 755", unix.EEXIST},
	{"", "mkdir d/e 755", unix.ENOENT},
	{"create f 644", "mkdir f/d 755", unix.ENOTDIR},
	{"", "mkdir " + tooLong + " 755", unix.ENAMETOOLONG},

	{"", "symlink s nowhere", nil},
	{"mkdir d 755", "symlink d/s ../nowhere", nil},
	{"", "symlink s " + strings.Repeat("x/", 2047), nil},
	{"create f 644", "symlink f nowhere", unix.EEXIST},
	{"", "symlink d/s nowhere", unix.ENOENT},

	{"create f 644; write f 0 5", "link f g", nil},
	{"create f 644; mkdir d 755", "link f d/g", nil},
	{"symlink s nowhere", "link s t", nil},
	{"mkfifo p 644", "link p q", nil},
	{"create f 644; link f g; unlink f", "link g f", nil},
	{"create f 644", "link f f", unix.EEXIST},
	{"create f 644; mkdir d 755", "link f d", unix.EEXIST},
	{"mkdir d 755", "link d e", unix.EPERM},
	{"", "link f g", unix.ENOENT},
	{"create f 644", "link f d/g", unix.ENOENT},
	{"create f 644; create g 644", "link f g/h", unix.ENOTDIR},
	{"create f 644", "link f " + tooLong, unix.ENAMETOOLONG},

	{"create f 644", "unlink f", nil},
	{"create f 644; write f 0 5; link f g", "unlink f", nil},
	{"symlink s nowhere", "unlink s", nil},
	{"mkfifo p 644", "unlink p", nil},
	{"mkdir d 755", "unlink d", unix.EISDIR},
	{"", "unlink f", unix.ENOENT},
	{"", "unlink d/f", unix.ENOENT},
	{"create f 644", "unlink f/g", unix.ENOTDIR},

	{"mkdir d 755", "rmdir d", nil},
	{"mkdir d 755; mkdir d/e 755", "rmdir d/e", nil},
	{"mkdir d 755; create d/f 644; unlink d/f", "rmdir d", nil},
	{"mkdir d 755; create d/f 644", "rmdir d", unix.ENOTEMPTY},
	{"mkdir d 755; mkdir d/e 755", "rmdir d", unix.ENOTEMPTY},
	{"create f 644", "rmdir f", unix.ENOTDIR},
	{"symlink s nowhere", "rmdir s", unix.ENOTDIR},
	{"", "rmdir d", unix.ENOENT},

	{"create f 644; write f 0 5", "rename f g", nil},
	{"create f 644; write f 0 5; create g 600", "rename f g", nil},
	{"create f 644; mkdir d 755", "rename f d/f", nil},
	{"create f 644; link f g; create h 644", "rename h g", nil},
	{"create f 644; link f g", "rename f g", nil},
	{"create f 644; link f g", "rename f h", nil},
	{"create f 644", "rename f f", nil},
	{"symlink s nowhere; create f 644", "rename s f", nil},
	{"create f 644; symlink s nowhere", "rename f s", nil},
	{"mkdir d 755; create d/f 644; mkdir e 700", "rename d e", nil},
	{"mkdir d 755; mkdir d/e 755; create d/e/f 644", "rename d/e e", nil},
	{"mkdir d 755; mkdir e 755; create e/f 644", "rename d e", unix.ENOTEMPTY},
	{"create f 644; mkdir d 755", "rename f d", unix.EISDIR},
	{"mkdir d 755; create f 644", "rename d f", unix.ENOTDIR},
	{"mkdir d 755", "rename d d/e", unix.EINVAL},
	{"mkdir d 755; mkdir d/e 755", "rename d d/e/f", unix.EINVAL},
	{"mkdir d 755; mkdir d/e 755", "rename d/e d", unix.ENOTEMPTY},
	{"mkdir d 755; create d/f 644", "rename d/f d", unix.ENOTEMPTY},
	{"", "rename f g", unix.ENOENT},
	{"create f 644", "rename f d/g", unix.ENOENT},
	{"create f 644; create g 644", "rename f g/h", unix.ENOTDIR},
	{"create f 644", "rename f " + tooLong, unix.ENAMETOOLONG},

	{"create f 644", "rename-noreplace f g", nil},
	{"mkdir d 755; create d/f 644", "rename-noreplace d e", nil},
	{"create f 644; create g 644", "rename-noreplace f g", unix.EEXIST},
	{"create f 644", "rename-noreplace f f", unix.EEXIST},
	{"create f 644; link f g", "rename-noreplace f g", unix.EEXIST},
	{"", "rename-noreplace f g", unix.ENOENT},

	{"create f 644; write f 0 5; create g 600", "rename-exchange f g", nil},
	{"create f 644; mkdir d 755; create d/g 600", "rename-exchange f d", nil},
	{"mkdir d 755; create d/f 644; mkdir e 700; mkdir e/g 755", "rename-exchange d e", nil},
	{"mkdir d 755; mkdir d/e 755; create d/e/f 644; create g 644", "rename-exchange d/e g", nil},
	{"create f 644; symlink s nowhere", "rename-exchange f s", nil},
	{"create f 644; link f g", "rename-exchange f g", nil},
	{"create f 644; mkdir d 755; link f d/g; create h 600", "rename-exchange d/g h", nil},
	{"create f 644", "rename-exchange f g", unix.ENOENT},
	{"create g 644", "rename-exchange f g", unix.ENOENT},
	{"mkdir d 755; mkdir d/e 755", "rename-exchange d d/e", unix.EINVAL},
	{"mkdir d 755; mkdir d/e 755", "rename-exchange d/e d", unix.EINVAL},

	{"create f 644; write f 0 5", "rename-whiteout f g", nil},
	{"create f 644; create g 600; mkdir d 755", "rename-whiteout f g", nil},
	{"mkdir d 755; create d/f 644", "rename-whiteout d e", nil},
	{"create f 644; link f g", "rename-whiteout f h", nil},
	{"", "rename-whiteout f g", unix.ENOENT},

	{"create f 644", "chmod f 600", nil},
	{"create f 644; link f g", "chmod g 755", nil},
	{"mkdir d 755", "chmod d 700", nil},
	{"create f 644", "chmod f 644", nil},
	{"symlink s nowhere", "chmod s 600", unix.ENOENT},
	{"", "chmod f 600", unix.ENOENT},

	{"create f 644", "setxattr f user.a 1", nil},
	{"create f 644; setxattr f user.a 1", "setxattr f user.a 2", nil},
	{"create f 644; link f g; setxattr f user.b 1", "setxattr g user.a 2", nil},
	{"mkdir d 755", "setxattr d user.a 1", nil},
	{"", "setxattr f user.a 1", unix.ENOENT},

	{"create f 644; setxattr f user.a 1; setxattr f user.b 2", "removexattr f user.a", nil},
	{"create f 644; setxattr f user.a 1", "removexattr f user.b", unix.ENODATA},
	{"mkdir d 755", "removexattr d user.a", unix.ENODATA},
	{"", "removexattr f user.a", unix.ENOENT},

	{"create f 644", "createxattr f user.a 1", nil},
	{"create f 644; setxattr f user.a 1", "createxattr f user.b 2", nil},
	{"create f 644; setxattr f user.a 1", "createxattr f user.a 2", unix.EEXIST},
	{"create f 644; setxattr f user.a 1", "replacexattr f user.a 2", nil},
	{"create f 644; setxattr f user.a 1", "replacexattr f user.b 2", unix.ENODATA},

	{"create f 644", "allocate f 0 100000", nil},
	{"create f 644; write f 0 100000", "allocate f 10 100", nil},
	{"create f 644; write f 0 100", "allocate f 50 5000", nil},
	{"create f 644; write f 0 100; truncate f 10", "allocate f 200000 10", nil},
	{"mkdir d 755", "allocate d 0 1", unix.EISDIR},

	{"", "mkfifo p 644", nil},
	{"create f 644", "mkfifo f 644", unix.EEXIST},
	{"", "mkfifo d/p 644", unix.ENOENT},
}

// Conformance performs each operation with its corners on a tree of its own, and compares what the
// operation returns with what Linux returns, and the tree that it leaves with the model's. The umask
// of the process must be 0.
func Conformance(t *testing.T, empty func(t *testing.T) System) {
	for _, r := range rules {
		name := strings.NewReplacer(longest, "LONGEST", "/", "|").Replace(r.op)
		t.Run(name[:min(len(name), 60)], func(t *testing.T) {
			system, model := empty(t), New()
			for line := range strings.SplitSeq(r.tree, "; ") {
				if line != "" {
					op := parse(line)
					must.OK(t, system.Do(op))
					must.OK(t, op.Apply(model))
				}
			}

			op := parse(r.op)
			if err := op.Apply(model); !errors.Is(err, r.want) {
				t.Errorf("the model of %q returns %v, want %v", r.tree, err, r.want)
			}
			if err := system.Do(op); !errors.Is(err, r.want) {
				t.Errorf("after %q it returns %v, want %v", r.tree, err, r.want)
			}

			list, err := system.List()
			must.OK(t, err)
			if d := Compare(model.List(), list); d != "" {
				t.Errorf("after %q it leaves:\n%s", r.tree, d)
			}
		})
	}
}

// parse reads an operation: its kind, its path, and what its kind needs beside the path: another path,
// offsets and lengths, the mode in octal, or the name of an attribute and a number for its value.
func parse(line string) Op {
	words := strings.Fields(line)
	op := Op{Kind: -1, Path: words[1], Fill: 7}
	for k, name := range kindNames {
		if name == words[0] {
			op.Kind = Kind(k)
		}
	}

	number := func(i int) int64 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			panic(fmt.Sprintf("%q: %v", line, err))
		}
		return n
	}
	switch op.Kind {
	case Create, Mkdir, Chmod, Mkfifo:
		mode, err := strconv.ParseUint(words[2], 8, 32)
		if err != nil {
			panic(fmt.Sprintf("%q: %v", line, err))
		}
		op.Mode = uint32(mode)
	case Write, Punch, Allocate:
		op.Off, op.Len = number(2), number(3)
	case Append, Truncate:
		op.Len = number(2)
	case Copy:
		op.Off, op.To, op.ToOff, op.Len = number(2), words[3], number(4), number(5)
	case Symlink, Link, Rename, RenameNoReplace, RenameExchange, RenameWhiteout:
		op.To = words[2]
	case SetXattr, CreateXattr, ReplaceXattr:
		op.Name, op.Fill = words[2], byte(number(3))
	case RemoveXattr:
		op.Name = words[2]
	case Unlink, Rmdir:
	default:
		panic(fmt.Sprintf("%q is no operation", line))
	}
	return op
}
