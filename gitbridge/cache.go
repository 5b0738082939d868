package gitbridge

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// cache remembers, for one repository, which blob a content became and what an
// exported commit left out. It is a file of appended records and can be deleted
// at any time: the next export then hashes and sends everything again.
//
//	"amberfs git cache 1\n"
//	record: crc32c u32, key length u16, value length u32, key, value
//
// Numbers are little endian; the checksum covers the rest of its record. What
// follows a record that does not match is ignored and cut off.
type cache struct {
	path  string
	known map[string]string
	fresh []byte // records to append
}

const cacheHeader = "amberfs git cache 1\n"

const recordHead = 4 + 2 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openCache loads the cache of a repository in dir. Without dir nothing is kept.
// A cache that cannot be read is an empty one.
func openCache(dir string, r *repository) *cache {
	c := &cache{known: make(map[string]string)}
	if dir == "" {
		return c
	}
	// A repository that was deleted and made again has another inode number.
	var ino uint64
	if info, err := os.Stat(r.objects); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			ino = st.Ino
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%v", r.objects, ino, r.sha256))
	c.path = filepath.Join(dir, hex.EncodeToString(sum[:8])+".gitcache")
	if f, err := os.Open(c.path); err == nil {
		defer f.Close()
		c.load(f)
	}
	return c
}

// load reads records up to the first that is damaged and returns how long the
// good part is.
func (c *cache) load(f *os.File) int64 {
	in := bufio.NewReaderSize(f, 1<<20)
	head := make([]byte, len(cacheHeader))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != cacheHeader {
		return 0
	}
	good := int64(len(head))
	var buf []byte
	for {
		var h [recordHead]byte
		if _, err := io.ReadFull(in, h[:]); err != nil {
			return good
		}
		keyLen, valueLen := int(binary.LittleEndian.Uint16(h[4:])), int(binary.LittleEndian.Uint32(h[6:]))
		const longest = 64 << 20
		if valueLen > longest {
			return good
		}
		if cap(buf) < keyLen+valueLen {
			buf = make([]byte, keyLen+valueLen)
		}
		buf = buf[:keyLen+valueLen]
		if _, err := io.ReadFull(in, buf); err != nil {
			return good
		}
		sum := crc32.Update(crc32.Checksum(h[4:], castagnoli), castagnoli, buf)
		if sum != binary.LittleEndian.Uint32(h[:]) {
			return good
		}
		c.known[string(buf[:keyLen])] = string(buf[keyLen:])
		good += int64(recordHead + len(buf))
	}
}

func (c *cache) put(key, value string) {
	if c.known[key] == value {
		return
	}
	c.known[key] = value
	if c.path == "" {
		return
	}
	start := len(c.fresh)
	c.fresh = append(c.fresh, 0, 0, 0, 0)
	c.fresh = binary.LittleEndian.AppendUint16(c.fresh, uint16(len(key)))
	c.fresh = binary.LittleEndian.AppendUint32(c.fresh, uint32(len(value)))
	c.fresh = append(append(c.fresh, key...), value...)
	binary.LittleEndian.PutUint32(c.fresh[start:], crc32.Checksum(c.fresh[start+4:], castagnoli))
}

// forget empties the cache, after it has been found to be wrong.
func (c *cache) forget() {
	c.known, c.fresh = make(map[string]string), nil
	if c.path != "" {
		os.Remove(c.path)
	}
}

// save appends what is new. The caller may ignore the error: the cache is then
// only less useful.
func (c *cache) save() error {
	if len(c.fresh) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return fmt.Errorf("saving the export cache: %w", err)
	}
	f, err := os.OpenFile(c.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("saving the export cache: %w", err)
	}
	err = c.appendTo(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("saving the export cache: %w", err)
	}
	c.fresh = nil
	return nil
}

func (c *cache) appendTo(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	end := (&cache{known: make(map[string]string)}).load(f)
	data := c.fresh
	if end == 0 {
		data = append([]byte(cacheHeader), data...)
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	_, err := f.WriteAt(data, end)
	return err
}

// blob is what the cache knows of a content.
type blob struct {
	id    string // hex
	crlf  bool   // the content has CR LF
	ident bool   // the content has $Id
}

// Keys begin with a letter for what they are.
const (
	blobKey   = "b"
	exportKey = "e"
)

func (c *cache) blob(key []byte) (blob, bool) {
	v, ok := c.known[blobKey+string(key)]
	if !ok || len(v) < 21 {
		return blob{}, false
	}
	return blob{id: hex.EncodeToString([]byte(v[1:])), crlf: v[0]&1 != 0, ident: v[0]&2 != 0}, true
}

func (c *cache) putBlob(key []byte, b blob) {
	id, err := hex.DecodeString(b.id)
	if err != nil {
		return
	}
	var flags byte
	if b.crlf {
		flags |= 1
	}
	if b.ident {
		flags |= 2
	}
	c.put(blobKey+string(key), string(append([]byte{flags}, id...)))
}

// exported is what has to be known of an export to build the next one on it.
type exported struct {
	Fingerprint string
	Tree        string
	Files       int
	Links       []string // nested repositories, recorded as a link
	Skipped     []Lost
	Reduced     []Lost
}

func (c *cache) export(commit string) (exported, bool) {
	var e exported
	v, ok := c.known[exportKey+commit]
	if !ok || gob.NewDecoder(bytes.NewReader([]byte(v))).Decode(&e) != nil {
		return exported{}, false
	}
	return e, true
}

func (c *cache) putExport(commit string, e exported) {
	var v bytes.Buffer
	if err := gob.NewEncoder(&v).Encode(e); err != nil {
		return
	}
	c.put(exportKey+commit, v.String())
}
