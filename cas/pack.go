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

	// maxOpenPacks bounds the open files: above it, files without users are closed.
	maxOpenPacks = 256
)

// A pack is one file of records. locator.mu guards the fields from size to full, packSet.mu the fields
// from file on.
type pack struct {
	id   uint64
	path string

	size      int64 // bytes of the file when the store was opened
	end       int64 // offset after the last record
	syncedEnd int64 // offset before which all bytes are on disk
	noAppend  bool  // the pack is damaged: no record is appended
	info      packInfo
	dirty     bool // info differs from the pack's entry in the index

	hasGarbage bool // a record became dead after the last sweep
	sweeping   bool // a sweep has deleted keys from the index, but not yet freed their records

	full bool // the appender writes to a newer pack, but remains a user of this file until its bytes are on disk

	file  vfs.File      // nil if it is not open
	users int           // number of users of file: acquireFile, releaseFile
	idle  *list.Element // in packSet.idle, nil if there are users
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
	fs        vfs.FS
	dir       string
	readOnly  bool
	packSize  int64
	space     *space
	failure   *failure
	locatorMu *sync.Mutex // locator.mu

	mu     sync.Mutex // guards the fields below
	byID   map[uint64]*pack
	lastID uint64    // highest id so far
	open   int       // number of open files
	idle   list.List // packs whose file is open and has no users, in the order of their last use

	tail appender
}

// load finds the packs on disk, adds them to the set and checks their headers. It does not write. It
// returns the packs with damaged headers, which are also in the set.
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
			p.noAppend = true
		case err != nil:
			return nil, err
		}

		ps.byID[id] = p
		ps.lastID = max(ps.lastID, id)
	}

	return damaged, nil
}

// checkHeader reads and checks the header of a pack. Errors: see checkPackHeader.
func (ps *packSet) checkHeader(p *pack) error {
	f, err := vfs.Open(ps.fs, p.path)
	if err != nil {
		return fmt.Errorf("open pack: %w", err)
	}
	defer f.Close()

	b := make([]byte, packHeaderSize)
	n, err := readUpTo(f, b, 0)
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
	return ps.byID[id]
}

// all returns the packs in the order of their ids: the oldest first.
func (ps *packSet) all() []*pack {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return slices.SortedFunc(maps.Values(ps.byID), func(a, b *pack) int { return cmp.Compare(a.id, b.id) })
}

// hasRecords reports whether at least one pack had records when the store was opened.
func (ps *packSet) hasRecords() bool {
	return slices.ContainsFunc(ps.all(), func(p *pack) bool { return p.size > packHeaderSize })
}

// acquireFile returns the pack's file, and opens it if it is not open. The caller calls releaseFile. When gc
// removes the pack, the file is closed although it has users: their reads fail, and the readers look up the
// new places of the objects.
func (ps *packSet) acquireFile(p *pack) (vfs.File, error) {
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
	ps.removeIdle(p)

	return p.file, nil
}

// releaseFile ends a use of the pack's file. If more than maxOpenPacks files are open, it closes the
// files that were not used for the longest time.
func (ps *packSet) releaseFile(p *pack) {
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

// markFull records that the appender no longer appends to a pack. p may be nil.
func (ps *packSet) markFull(p *pack) {
	if p == nil {
		return
	}
	ps.locatorMu.Lock()
	p.full = true
	ps.locatorMu.Unlock()
	ps.releaseFullIfSynced(p)
}

// releaseFullIfSynced ends the appender's use of a full pack if its bytes are on disk.
func (ps *packSet) releaseFullIfSynced(p *pack) {
	ps.locatorMu.Lock()
	synced := p.full && p.syncedEnd == p.end
	if synced {
		p.full = false
	}

	ps.locatorMu.Unlock()
	if synced {
		ps.releaseFile(p)
	}
}

// removeIdle removes a pack from the list packSet.idle. The caller holds packSet.mu.
func (ps *packSet) removeIdle(p *pack) {
	if p.idle != nil {
		ps.idle.Remove(p.idle)
		p.idle = nil
	}
}

// closeFile closes the pack's file, if it is open. The caller holds packSet.mu.
func (ps *packSet) closeFile(p *pack) {
	ps.removeIdle(p)

	if p.file != nil {
		// All bytes that are needed were synced before, so the error does not matter.
		_ = p.file.Close()
		p.file = nil
		ps.open--
	}
}

// create makes an empty pack and syncs it. The appender, which calls create, is then a user of the
// pack's file. The id has a serial number in the upper half and a random lower half, which salts the
// checksums of the records.
func (ps *packSet) create() (*pack, error) {
	ps.mu.Lock()
	id := (ps.lastID>>32+1)<<32 | uint64(rand.Uint32())
	ps.lastID = id
	ps.mu.Unlock()

	p := &pack{id: id, path: filepath.Join(ps.dir, packName(id))}
	f, err := vfs.Create(ps.fs, p.path)
	if err != nil {
		return nil, fmt.Errorf("create pack: %w", err)
	}

	if err := ps.writeHeader(f, id); err != nil {
		_ = f.Close()
		_ = ps.fs.Remove(p.path) // if this fails too, an empty pack is left, which is harmless
		return nil, fmt.Errorf("create pack %s: %w", p.name(), err)
	}

	p.end, p.syncedEnd = packHeaderSize, packHeaderSize
	p.info.indexedEnd = packHeaderSize
	ps.mu.Lock()
	defer ps.mu.Unlock()

	p.file, p.users = f, 1
	ps.open++
	ps.byID[id] = p

	return p, nil
}

// writeHeader writes the header of a new pack, and syncs the pack and its folder.
func (ps *packSet) writeHeader(f vfs.File, id uint64) error {
	if _, err := f.WriteAt(encodePackHeader(id), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}

	return ps.fs.SyncDir(ps.dir)
}

// remove deletes the pack's file.
func (ps *packSet) remove(p *pack) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()

	if err := ps.fs.Remove(p.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove pack: %w", err)
	}

	delete(ps.byID, p.id)
	ps.closeFile(p)

	return nil
}

func (ps *packSet) close() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.byID {
		ps.closeFile(p)
	}
}
