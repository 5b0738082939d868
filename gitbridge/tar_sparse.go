package gitbridge

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// The standard library reads sparse files but does not write them, so the
// entry is put together here. Its data begins with a map of what is stored, and
// the real name and size stand in the extended header, so that a program that
// does not know sparse files extracts something harmless beside the others:
// https://www.gnu.org/software/tar/manual/html_section/Sparse-Formats.html

const block = 512

// sparse writes a file with holes. data are its other parts, stored bytes long.
func (t *tarWriter) sparse(name string, n *tree.Inode, h *tar.Header, data []Extent, stored int64) error {
	if err := t.tar.Flush(); err != nil {
		return err
	}
	if len(data) == 0 || data[len(data)-1].Offset+data[len(data)-1].Length < h.Size {
		data = append(slices.Clone(data), Extent{h.Size, 0})
	}
	var parts strings.Builder
	fmt.Fprintf(&parts, "%d\n", len(data))
	for _, e := range data {
		fmt.Fprintf(&parts, "%d\n%d\n", e.Offset, e.Length)
	}
	parts.WriteString(strings.Repeat("\x00", pad(int64(parts.Len()))))

	records := map[string]string{
		"GNU.sparse.major":    "1",
		"GNU.sparse.minor":    "0",
		"GNU.sparse.name":     name,
		"GNU.sparse.realsize": strconv.FormatInt(h.Size, 10),
	}
	for k, v := range h.PAXRecords {
		records[k] = v
	}
	sec, nsec := h.ModTime.Unix(), h.ModTime.Nanosecond()
	if sec < 0 || sec > maxOctal11 || nsec != 0 {
		records["mtime"] = paxTime(sec, nsec)
		sec = min(max(sec, 0), maxOctal11)
	}
	number := func(key string, v, limit int64) int64 {
		if v > limit {
			records[key] = strconv.FormatInt(v, 10)
			return 0
		}
		return v
	}
	size := int64(parts.Len()) + stored
	head := ustar{
		name: "GNUSparseFile.0/" + asciiBase(name), typeflag: tar.TypeReg, mode: h.Mode, mtime: sec,
		uid:  number("uid", int64(h.Uid), maxOctal7),
		gid:  number("gid", int64(h.Gid), maxOctal7),
		size: number("size", size, maxOctal11),
	}
	pax := paxRecords(records)
	ext := ustar{name: "PaxHeaders.0/" + asciiBase(name), typeflag: tar.TypeXHeader, mode: 0o644, size: int64(len(pax))}
	for _, b := range []string{ext.block(), pax, strings.Repeat("\x00", pad(int64(len(pax)))), head.block(), parts.String()} {
		if _, err := t.w.WriteString(b); err != nil {
			return err
		}
	}
	file := contentReader{t.src, n.Content}
	for _, e := range data {
		if err := t.copy(name, t.w, io.NewSectionReader(file, e.Offset, e.Length), e.Length); err != nil {
			return err
		}
	}
	_, err := t.w.WriteString(strings.Repeat("\x00", pad(size)))
	return err
}

func isNoData(err error) bool { return errors.Is(err, tree.ErrNoData) }

// pad is the number of bytes that fill up the last block of n bytes.
func pad(n int64) int { return int(-n & (block - 1)) }

// The largest numbers of fields of 7 and 11 octal digits.
const (
	maxOctal7  = 1<<21 - 1
	maxOctal11 = 1<<33 - 1
)

// ustar is one header block.
type ustar struct {
	name           string // ASCII, at most 100 bytes
	typeflag       byte
	mode, uid, gid int64
	size, mtime    int64
}

func (u ustar) block() string {
	b := make([]byte, block)
	octal := func(at, width int, v int64) { copy(b[at:], fmt.Sprintf("%0*o\x00", width-1, v)) }
	copy(b[:100], u.name)
	octal(100, 8, u.mode)
	octal(108, 8, u.uid)
	octal(116, 8, u.gid)
	octal(124, 12, u.size)
	octal(136, 12, u.mtime)
	copy(b[148:], "        ") // the checksum is made as if it were blank
	b[156] = u.typeflag
	copy(b[257:], "ustar\x0000")
	octal(329, 8, 0)
	octal(337, 8, 0)
	var sum int64
	for _, c := range b {
		sum += int64(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return string(b)
}

// asciiBase is a name for programs that do not read extended headers.
func asciiBase(name string) string {
	base := []byte(path.Base(name))
	for i, c := range base {
		if c < ' ' || c >= 0x7f {
			base[i] = '_'
		}
	}
	const room = 100 - len("GNUSparseFile.0/")
	return string(base[:min(len(base), room)])
}

// paxRecords lays out records by key, each with its own length in front.
func paxRecords(records map[string]string) string {
	var keys []string
	for k := range records {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	for _, k := range keys {
		rest := len(" =\n") + len(k) + len(records[k])
		n := rest + len(strconv.Itoa(rest))
		if n != rest+len(strconv.Itoa(n)) {
			n = rest + len(strconv.Itoa(n))
		}
		fmt.Fprintf(&b, "%d %s=%s\n", n, k, records[k])
	}
	return b.String()
}

// paxTime writes seconds with a fraction. It counts down before 1970.
func paxTime(sec int64, nsec int) string {
	if nsec == 0 {
		return strconv.FormatInt(sec, 10)
	}
	sign := ""
	if sec < 0 {
		sign, sec, nsec = "-", -(sec + 1), 1e9-nsec
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, sec, nsec), "0")
}
