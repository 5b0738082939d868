package importer

import (
	"io"
	"path"

	"github.com/amberfs/amberfs/gitbridge"
)

// Under is a sink that puts everything below a directory of another. The
// directories that lead there are made with the attributes given.
func Under(sink gitbridge.Sink, dir string, made gitbridge.Meta) (gitbridge.Sink, error) {
	if dir == "" || dir == "." {
		return sink, nil
	}
	var parents []string
	for d := dir; d != "."; d = path.Dir(d) {
		parents = append(parents, d)
	}
	for i := len(parents) - 1; i >= 0; i-- {
		if err := sink.Dir(parents[i], made); err != nil {
			return nil, err
		}
	}
	return &under{sink, dir}, nil
}

type under struct {
	sink gitbridge.Sink
	dir  string
}

func (u *under) Dir(p string, m gitbridge.Meta) error { return u.sink.Dir(path.Join(u.dir, p), m) }

func (u *under) File(p string, m gitbridge.Meta, size int64, r io.Reader) error {
	return u.sink.File(path.Join(u.dir, p), m, size, r)
}

func (u *under) Symlink(p, target string, m gitbridge.Meta) error {
	return u.sink.Symlink(path.Join(u.dir, p), target, m)
}

func (u *under) Hardlink(p, old string) error {
	return u.sink.Hardlink(path.Join(u.dir, p), path.Join(u.dir, old))
}

func (u *under) Special(p string, m gitbridge.Meta, rdev uint32) error {
	return u.sink.Special(path.Join(u.dir, p), m, rdev)
}
