package gitbridge

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The standard library reads sparse files, but fills their holes with zeros and
// does not tell where they were: a hole of an exabyte would take years. So a
// plainTar stands between it and the archive, and shows it sparse files as the
// regular files that they are stored as. Where the parts belong, it remembers:
// https://www.gnu.org/software/tar/manual/html_section/Sparse-Formats.html

// plainTar is an archive without sparse files. What it does not understand it
// leaves as it is.
type plainTar struct {
	r     *bufio.Reader
	out   bytes.Buffer // headers to be read next
	body  int64        // bytes after them that belong to the file, padding included
	raw   bool         // nothing is looked at any more
	began bool         // something has come
	end   bool         // the mark that ends an archive has come

	pax    []paxRecord // of the entry that comes
	hasPAX bool
	holes  *holeMap // of the entry that came, nil if it is not sparse
}

// holeMap says where the stored parts of a sparse file belong.
type holeMap struct {
	size   int64 // of the file
	inBody bool  // the parts are listed in front of the data
	parts  []Extent
}

type paxRecord struct{ key, value string }

const (
	maxSpecial = 1 << 20 // as in archive/tar
	maxParts   = 4 << 20 // of a file
)

func newPlainTar(r io.Reader) *plainTar { return &plainTar{r: bufio.NewReaderSize(r, 64<<10)} }

// Read gives archive/tar what it asks for, and nothing ahead: holes is that of
// the entry whose header was read last.
func (t *plainTar) Read(p []byte) (int, error) {
	for {
		switch {
		case t.out.Len() > 0:
			return t.out.Read(p)
		case t.raw:
			return t.r.Read(p)
		case t.body > 0:
			n, err := t.r.Read(p[:min(int64(len(p)), t.body)])
			t.body -= int64(n)
			return n, err
		}
		if err := t.header(); err != nil {
			return 0, err
		}
	}
}

// header reads the next header, with what belongs to it.
func (t *plainTar) header() error {
	b := make([]byte, block)
	n, err := io.ReadFull(t.r, b)
	t.began = t.began || n > 0
	if err != nil {
		t.out.Write(b[:n])
		t.raw = true
		if n == 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		return nil
	}
	size, ok := tarNumber(b[124:136])
	if !ok || !checksumOK(b) {
		t.end = t.end || bytes.Equal(b, make([]byte, block))
		t.flush()
		t.out.Write(b)
		t.raw = true // the end, or nothing that archive/tar takes
		return nil
	}
	switch kind := b[156]; kind {
	case tar.TypeXHeader:
		return t.extended(b, size)
	case tar.TypeXGlobalHeader, 'L', 'K':
		t.out.Write(b)
		t.body = padded(size)
	default:
		return t.entry(b, kind, size)
	}
	return nil
}

// extended reads the records for the entry that follows.
func (t *plainTar) extended(b []byte, size int64) error {
	if size > maxSpecial {
		t.out.Write(b)
		t.raw = true
		return nil
	}
	data := make([]byte, padded(size))
	n, err := io.ReadFull(t.r, data)
	records, ok := parsePAX(data[:min(int64(n), size)])
	if err != nil || !ok {
		t.out.Write(b)
		t.out.Write(data[:n])
		t.raw = true
		return nil
	}
	t.pax, t.hasPAX = records, true
	return nil
}

// flush writes the records that were read, without those about holes.
func (t *plainTar) flush() {
	if !t.hasPAX {
		return
	}
	var text strings.Builder
	for _, r := range t.pax {
		text.WriteString(paxRecords(map[string]string{r.key: r.value}))
	}
	t.out.WriteString(ustar{name: "PaxHeaders.0/x", typeflag: tar.TypeXHeader, mode: 0o644, size: int64(text.Len())}.block())
	t.out.WriteString(text.String())
	t.out.Write(make([]byte, pad(int64(text.Len()))))
	t.pax, t.hasPAX = nil, false
}

// entry reads the header of a file.
func (t *plainTar) entry(b []byte, kind byte, size int64) error {
	t.holes = nil
	for _, r := range t.pax {
		if r.key == "size" {
			if n, err := strconv.ParseInt(r.value, 10, 64); err == nil {
				size = n
			}
		}
	}
	var extension []byte
	var err error
	switch kind {
	case tar.TypeReg, '\x00':
		t.paxHoles()
	case tar.TypeGNUSparse:
		if extension, err = t.oldHoles(b); err != nil {
			return err
		}
	case tar.TypeLink, tar.TypeSymlink, tar.TypeChar, tar.TypeBlock, tar.TypeDir, tar.TypeFifo:
		size = 0
	}
	t.flush()
	t.out.Write(b)
	t.out.Write(extension)
	t.body = padded(max(size, 0))
	return nil
}

// paxHoles takes the records about holes: formats 0.0, 0.1 and 1.0.
func (t *plainTar) paxHoles() {
	var m holeMap
	var name, major, minor, size, list string
	var numbers []string // of format 0.0
	kept := make([]paxRecord, 0, len(t.pax)+1)
	for _, r := range t.pax {
		switch strings.TrimPrefix(r.key, "GNU.sparse.") {
		case r.key:
			kept = append(kept, r)
		case "name":
			name = r.value
		case "major":
			major = r.value
		case "minor":
			minor = r.value
		case "size", "realsize":
			size = r.value
		case "map":
			list = r.value
		case "offset", "numbytes":
			numbers = append(numbers, r.value)
		}
	}
	var err error
	if m.size, err = strconv.ParseInt(size, 10, 64); err != nil || m.size < 0 {
		return
	}
	switch {
	case major == "1" && minor == "0":
		m.inBody = true
	case list != "":
		numbers = strings.Split(list, ",")
		fallthrough
	default:
		if m.parts, err = pairs(numbers); err != nil {
			return
		}
	}
	if name != "" {
		kept = append(kept, paxRecord{"path", name})
	}
	t.pax, t.holes = kept, &m
}

func pairs(numbers []string) ([]Extent, error) {
	if len(numbers)%2 != 0 {
		return nil, errors.New("a part without a length")
	}
	parts := make([]Extent, len(numbers)/2)
	for i := range parts {
		var err error
		if parts[i].Offset, err = strconv.ParseInt(numbers[2*i], 10, 64); err != nil {
			return nil, err
		}
		if parts[i].Length, err = strconv.ParseInt(numbers[2*i+1], 10, 64); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// oldHoles makes a regular file of the header of GNU's old format, and returns
// the blocks that followed it if it cannot.
func (t *plainTar) oldHoles(b []byte) (extension []byte, err error) {
	size, ok := tarNumber(b[483:495])
	m := &holeMap{size: size}
	more := b[482] != 0
	ok = ok && m.add(b[386:482])
	for more {
		x := make([]byte, block)
		if n, err := io.ReadFull(t.r, x); err != nil {
			t.raw = true
			return append(extension, x[:n]...), nil
		}
		extension = append(extension, x...)
		ok = ok && m.add(x[:504])
		more = x[504] != 0
		if len(m.parts) > maxParts {
			return nil, fmt.Errorf("%w: a file with over %d holes", ErrTooBig, maxParts)
		}
	}
	if !ok {
		return extension, nil
	}
	b[156] = tar.TypeReg
	clear(b[386:495])
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", checksum(b)))
	t.holes = m
	return nil, nil
}

// add reads entries of an offset and a length, 12 bytes each, up to an empty one.
func (m *holeMap) add(b []byte) bool {
	for ; len(b) >= 24 && b[0] != 0; b = b[24:] {
		off, ok := tarNumber(b[:12])
		n, ok2 := tarNumber(b[12:24])
		if !ok || !ok2 {
			return false
		}
		m.parts = append(m.parts, Extent{off, n})
	}
	return true
}

// parts reads a sparse file as it is stored: stored bytes of r.
func (m *holeMap) reader(r io.Reader, stored int64) (*tarParts, error) {
	p := &tarParts{r: r, size: m.size, parts: m.parts}
	if m.inBody {
		n, err := p.readMap()
		if err != nil {
			return nil, err
		}
		stored -= n
	}
	var at int64
	for _, e := range p.parts {
		if e.Offset < at || e.Length < 0 || e.Length > m.size-e.Offset || e.Length > stored {
			return nil, fmt.Errorf("%w: its parts overlap, or reach out of it", ErrHostile)
		}
		at = e.Offset + e.Length
		stored -= e.Length
	}
	return p, nil
}

// tarParts is a sparse file of an archive.
type tarParts struct {
	r     io.Reader
	size  int64
	parts []Extent // that are to come
	left  int64    // of the present one
}

// readMap reads the list of parts in front of the data: decimal numbers, a line
// each, filled up to a whole block.
func (p *tarParts) readMap() (size int64, err error) {
	var line []byte
	var b [block]byte
	want := int64(1)
	var numbers []int64
	for {
		if _, err := io.ReadFull(p.r, b[:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		size += block
		for _, c := range b {
			if int64(len(numbers)) == want {
				break
			}
			if c != '\n' {
				if line = append(line, c); len(line) > 20 {
					return 0, fmt.Errorf("%w: a list of holes that is none", ErrHostile)
				}
				continue
			}
			n, err := strconv.ParseInt(string(line), 10, 64)
			if err != nil || n < 0 {
				return 0, fmt.Errorf("%w: a list of holes that is none", ErrHostile)
			}
			if line = line[:0]; len(numbers) == 0 {
				if n > maxParts {
					return 0, fmt.Errorf("%w: a file with over %d holes", ErrTooBig, maxParts)
				}
				want = 1 + 2*n
			}
			numbers = append(numbers, n)
		}
		if int64(len(numbers)) == want {
			break
		}
	}
	for i := 1; i < len(numbers); i += 2 {
		p.parts = append(p.parts, Extent{numbers[i], numbers[i+1]})
	}
	return size, nil
}

// Next implements SparseReader.
func (p *tarParts) Next() (int64, error) {
	if _, err := io.Copy(io.Discard, p); err != nil {
		return 0, err
	}
	for len(p.parts) > 0 {
		e := p.parts[0]
		p.parts = p.parts[1:]
		if p.left = e.Length; p.left > 0 {
			return e.Offset, nil
		}
	}
	return p.size, io.EOF
}

// Read implements SparseReader.
func (p *tarParts) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	if err == io.EOF {
		if err = nil; p.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// parsePAX reads extended records, in order.
func parsePAX(data []byte) (records []paxRecord, ok bool) {
	for len(data) > 0 {
		space := bytes.IndexByte(data, ' ')
		if space < 0 {
			return nil, false
		}
		n, err := strconv.Atoi(string(data[:space]))
		if err != nil || n <= space+1 || n > len(data) || data[n-1] != '\n' {
			return nil, false
		}
		key, value, found := strings.Cut(string(data[space+1:n-1]), "=")
		if !found {
			return nil, false
		}
		records = append(records, paxRecord{key, value})
		data = data[n:]
	}
	return records, true
}

// tarNumber reads a field of octal digits, or of GNU's binary form.
func tarNumber(b []byte) (int64, bool) {
	if b[0]&0x80 != 0 {
		if b[0] != 0x80 {
			return 0, false // negative, or beyond 64 bits
		}
		var n int64
		for _, c := range b[1:] {
			if n>>55 != 0 {
				return 0, false
			}
			n = n<<8 | int64(c)
		}
		return n, true
	}
	text := strings.Trim(string(b), " \x00")
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(text, 8, 64)
	return n, err == nil && n >= 0
}

// checksum adds up a header as if its checksum were blank.
func checksum(b []byte) (sum int64) {
	for i, c := range b {
		if i >= 148 && i < 156 {
			c = ' '
		}
		sum += int64(c)
	}
	return sum
}

func checksumOK(b []byte) bool {
	n, ok := tarNumber(b[148:156])
	return ok && n == checksum(b) && n != 8*' '
}

func padded(n int64) int64 {
	if n > 1<<62 {
		return n
	}
	return n + int64(pad(n))
}
