package cas

import (
	"cmp"
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

const (
	packMagic      = "amberpak"
	packVersion    = 4
	packExt        = ".pack"
	packHeaderSize = 64 // the first record follows

	// maxOpenPacks is how many files stay open when nobody uses them.
	maxOpenPacks = 256
)

// A pack is one file of records. The mutable figures are guarded by index.mu, except
// the file, with its users, which the packSet guards.
type pack struct {
	id   uint64
	path string

	size   int64 // of the file when it was opened
	end    int64 // offset after the last record that is known
	synced int64 // offset up to which everything is known to be on disk
	sealed bool  // damaged somewhere: nothing is appended
	info   packInfo
	dirty  bool // info differs from the index

	garbage  bool // records became useless since the last sweep
	sweeping bool // keys are gone from the index, the records not yet

	full bool // the appender has left it, and is a user until its bytes are on disk

	file  vfs.File // nil until it is used
	users int      // of file
	idle  *list.Element
}

// name is the file's base name.
func (p *pack) name() string { return filepath.Base(p.path) }

func packName(id uint64) string { return fmt.Sprintf("%016x%s", id, packExt) }

func encodePackHeader(id uint64) []byte { return encodePackHeaderVersion(id, packVersion) }

func encodePackHeaderVersion(id uint64, version uint16) []byte {
	b := make([]byte, packHeaderSize)
	copy(b, packMagic)
	binary.LittleEndian.PutUint16(b[8:], version)
	binary.LittleEndian.PutUint64(b[16:], id)
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crcTable))
	return b
}

var errPackHeader = errors.New("pack header is damaged")

// checkPackHeader returns errs.Format for an intact header of another version and
// errPackHeader for anything that is not a header of this pack.
func checkPackHeader(b []byte, id uint64) error {
	if len(b) < packHeaderSize || string(b[:8]) != packMagic ||
		crc32.Checksum(b[:60], crcTable) != binary.LittleEndian.Uint32(b[60:]) {
		return errPackHeader
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != packVersion {
		return errs.New(errs.Format, "pack version %d, this version of amberfs reads version %d", v, packVersion)
	}
	if binary.LittleEndian.Uint64(b[16:]) != id {
		return errPackHeader
	}
	return nil
}

// parsePackName reads the name of a pack's file.
func parsePackName(name string) (id uint64, ok bool) {
	stem, ok := strings.CutSuffix(name, packExt)
	if !ok || len(stem) != 16 {
		return 0, false
	}
	id, err := strconv.ParseUint(stem, 16, 64)
	return id, err == nil && id != 0 && packName(id) == name
}

// A packSet is the packs of a store, and their open files.
type packSet struct {
	fs       vfs.FS
	dir      string
	readOnly bool
	packSize int64
	space    *space
	failed   *failure
	figures  *sync.Mutex // index.mu

	mu   sync.Mutex
	m    map[uint64]*pack
	last uint64    // highest id so far
	open int       // files
	idle list.List // packs whose file is open and not used, the one that was used last at the end

	tail appender
}

// load finds the packs on disk and checks their headers. It changes nothing.
// Files whose header is damaged are packs all the same.
func (ps *packSet) load() (damaged []*pack, err error) {
	infos, err := ps.fs.ReadDir(ps.dir)
	if err != nil {
		return nil, fmt.Errorf("list packs: %w", err)
	}
	for _, i := range infos {
		id, ok := parsePackName(i.Name)
		if !ok {
			continue
		}
		if i.Size > maxPackSize {
			return nil, errs.New(errs.Damaged, "pack %s has %d bytes; none has more than %d", i.Name, i.Size, maxPackSize)
		}
		p := &pack{id: id, path: filepath.Join(ps.dir, i.Name), size: i.Size}
		switch err := ps.checkHeader(p); {
		case errors.Is(err, errPackHeader):
			damaged = append(damaged, p)
			p.sealed = true
		case err != nil:
			return nil, err
		}
		ps.m[id] = p
		ps.last = max(ps.last, id)
	}
	return damaged, nil
}

func (ps *packSet) checkHeader(p *pack) error {
	f, err := vfs.Open(ps.fs, p.path)
	if err != nil {
		return fmt.Errorf("open pack: %w", err)
	}
	defer f.Close()
	b := make([]byte, packHeaderSize)
	n, err := readFull(f, b, 0)
	if err != nil {
		return fmt.Errorf("read pack %s: %w", p.name(), err)
	}
	if err := checkPackHeader(b[:n], p.id); err != nil {
		return fmt.Errorf("pack %s: %w", p.name(), err)
	}
	return nil
}

// get returns the pack, or nil.
func (ps *packSet) get(id uint64) *pack {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.m[id]
}

// all returns the packs by rising id.
func (ps *packSet) all() []*pack {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.SortedFunc(maps.Values(ps.m), func(a, b *pack) int { return cmp.Compare(a.id, b.id) })
}

// used reports whether there is a pack with anything in it.
func (ps *packSet) used() bool {
	return slices.ContainsFunc(ps.all(), func(p *pack) bool { return p.size > packHeaderSize })
}

// use returns the pack's file, which is opened if need be, until done. It is closed when
// the pack is removed: then what was read from it lies elsewhere.
func (ps *packSet) use(p *pack) (vfs.File, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.file == nil {
		flag := os.O_RDWR
		if ps.readOnly {
			flag = os.O_RDONLY
		}
		f, err := ps.fs.OpenFile(p.path, flag, 0)
		if err != nil {
			return nil, fmt.Errorf("open pack: %w", err)
		}
		p.file = f
		ps.open++
	}
	p.users++
	ps.notIdle(p)
	return p.file, nil
}

// done ends a use. Of the files that nobody uses, those that were used last stay open.
func (ps *packSet) done(p *pack) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.users--; p.users > 0 || p.file == nil {
		return
	}
	p.idle = ps.idle.PushBack(p)
	for ps.open > maxOpenPacks && ps.idle.Len() > 0 {
		ps.closeFile(ps.idle.Front().Value.(*pack))
	}
}

// leave notes that nothing is appended to a pack any more. p may be nil.
func (ps *packSet) leave(p *pack) {
	if p != nil {
		ps.figures.Lock()
		p.full = true
		ps.figures.Unlock()
		ps.letGo(p)
	}
}

// letGo takes a full pack from the appender, if its bytes are on disk.
func (ps *packSet) letGo(p *pack) {
	ps.figures.Lock()
	stored := p.full && p.synced == p.end
	if stored {
		p.full = false
	}
	ps.figures.Unlock()
	if stored {
		ps.done(p)
	}
}

func (ps *packSet) notIdle(p *pack) {
	if p.idle != nil {
		ps.idle.Remove(p.idle)
		p.idle = nil
	}
}

// closeFile is called with mu held.
func (ps *packSet) closeFile(p *pack) {
	ps.notIdle(p)
	if p.file != nil {
		// Everything that matters was synced, so an error here means nothing.
		_ = p.file.Close()
		p.file = nil
		ps.open--
	}
}

// create makes a new, durable, empty pack. Its id has a serial number in the
// upper half and a random lower half, which salts the checksums of the records.
func (ps *packSet) create() (*pack, error) {
	ps.mu.Lock()
	id := (ps.last>>32+1)<<32 | uint64(rand.Uint32())
	ps.last = id
	ps.mu.Unlock()
	p := &pack{id: id, path: filepath.Join(ps.dir, packName(id))}
	f, err := vfs.Create(ps.fs, p.path)
	if err != nil {
		return nil, fmt.Errorf("create pack: %w", err)
	}
	_, err = f.WriteAt(encodePackHeader(id), 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = ps.fs.SyncDir(ps.dir)
	}
	if err != nil {
		_ = f.Close()
		_ = ps.fs.Remove(p.path) // else an empty pack stays, which is harmless
		return nil, fmt.Errorf("create pack %s: %w", p.name(), err)
	}
	p.end, p.synced = packHeaderSize, packHeaderSize
	p.info.covered = packHeaderSize
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.file, p.users = f, 1
	ps.open++
	ps.m[id] = p
	return p, nil
}

// remove deletes the pack's file.
func (ps *packSet) remove(p *pack) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if err := ps.fs.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove pack: %w", err)
	}
	delete(ps.m, p.id)
	ps.closeFile(p)
	return nil
}

func (ps *packSet) close() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.m {
		ps.closeFile(p)
	}
}
