package live

import (
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// aheadFiles is how many files are expanded at most that nobody asked for yet.
	aheadFiles = content.MaxAhead
	// aheadSteps bounds how many entries of directories are looked at in one turn.
	aheadSteps = 16
	// aheadDepth is how many directories below where it began the walk goes down.
	aheadDepth = 64
)

// readAhead expands the small files that come next, for a program that reads a tree in the
// order in which it is listed, as tar and grep -r do.
type readAhead struct {
	last   atomic.Uint64 // NodeID of the sealed file that was last read from its beginning
	wanted atomic.Bool   // there is something to do

	mu     sync.Mutex // guards what follows; outermost
	seen   NodeID
	likely int      // grows with each file that was foreseen; 0: nothing is expanded
	files  []NodeID // that come next
	ready  int      // how many of them were expanded
	walk   walk
}

// read takes note that a file was read from its beginning.
func (a *readAhead) read(id NodeID) {
	if a.last.Swap(uint64(id)) != uint64(id) {
		a.wanted.Store(true)
	}
}

// Ahead expands one of the files that will probably be read next, if there are any.
// Whoever has answered a request calls it before it waits for the next one. It does
// nothing once busy reports that there is one. So the time that it takes is that in which
// the program works with what it got, and nobody is woken for it.
func (f *Forest) Ahead(busy func() bool) {
	a := &f.ahead
	if !a.wanted.Load() || busy() || !a.mu.TryLock() {
		return
	}
	defer a.mu.Unlock()
	// No request fails with it, so a fault in here is not to end the daemon either.
	guard.Call(f.logger, "reading ahead", func() { f.expandNext(a) })
}

// expandNext is what Ahead does. a.mu is held.
func (f *Forest) expandNext(a *readAhead) {
	a.wanted.Store(false)
	id := NodeID(a.last.Load())
	if id != a.seen {
		a.seen = id
		a.moved()
	}
	if c := f.nextContent(a, max(a.likely, 1)); c != nil {
		f.src.Files.Ahead(c)
	}
	if !a.walk.over && a.ready < a.likely || NodeID(a.last.Load()) != id {
		a.wanted.Store(true)
	}
}

// moved takes note of which file was read. a.mu is held.
func (a *readAhead) moved() {
	i := slices.Index(a.files, a.seen)
	if i < 0 {
		a.likely /= 2
		a.files, a.ready = a.files[:0], 0
		a.walk = walk{from: a.seen}
		return
	}
	a.likely = min(a.likely+1, aheadFiles)
	a.files = slices.Delete(a.files, 0, i+1)
	a.ready = max(0, a.ready-i-1)
}

// nextContent walks on until so many files are known, and returns the content of the next
// one to expand, nil if there is none. a.mu is held.
func (f *Forest) nextContent(a *readAhead, want int) *content.Content {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for steps := 0; len(a.files) < want && steps < aheadSteps && !a.walk.over; steps++ {
		if id := a.walk.next(f); id != 0 {
			a.files = append(a.files, id)
		}
	}
	if a.ready >= min(len(a.files), a.likely) {
		return nil
	}
	n, _, err := f.inode(a.files[a.ready])
	a.ready++
	if err != nil || !n.IsRegular() {
		return nil
	}
	return n.Content
}

// A walk goes through a tree in the order in which it is listed, from a file on.
type walk struct {
	from NodeID // begin behind it; 0: begun
	view uint32
	dirs []walkDir // the directory it is in, and those above as far as it went down
	over bool
}

type walkDir struct {
	ino   uint64
	after uint64 // cookie
}

// next goes one entry on and returns it if it is a regular file, else 0. f.mu is held.
func (w *walk) next(f *Forest) NodeID {
	if w.from != 0 {
		w.view = w.from.View()
		w.up(f, w.from.Ino())
		w.from = 0
	}
	if w.over {
		return 0
	}
	d := &w.dirs[len(w.dirs)-1]
	n, _, err := f.inode(Node(w.view, d.ino))
	if err != nil || !n.IsDir() {
		w.over = true
		return 0
	}
	var entry tree.Dirent
	err = n.Dir.List(f.src, d.after, func(e tree.Dirent, cookie uint64) bool {
		entry, d.after = e, cookie
		return false
	})
	switch {
	case err != nil:
		w.over = true
	case entry.Ino == 0:
		ino := d.ino
		if w.dirs = w.dirs[:len(w.dirs)-1]; len(w.dirs) == 0 {
			w.up(f, ino)
		}
	case entry.Type == unix.S_IFREG:
		return Node(w.view, entry.Ino)
	case entry.Type == unix.S_IFDIR && len(w.dirs) < aheadDepth:
		w.dirs = append(w.dirs, walkDir{ino: entry.Ino})
	}
	return 0
}

// up goes on behind a file or directory in the directory that it is in.
func (w *walk) up(f *Forest, ino uint64) {
	w.over = true
	n, _, err := f.inode(Node(w.view, ino))
	if err != nil || len(n.Links) == 0 {
		return
	}
	l := n.Links[0]
	dir, _, err := f.inode(Node(w.view, l.Parent))
	if err != nil || !dir.IsDir() {
		return
	}
	if cookie, err := dir.Dir.Cookie(f.src, l.Name); err == nil {
		w.dirs, w.over = append(w.dirs[:0], walkDir{l.Parent, cookie}), false
	}
}
