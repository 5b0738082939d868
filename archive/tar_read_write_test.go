package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

func archive(t testing.TB, m *trees.Memory, s trees.Spec) ([]byte, *TarResult) {
	t.Helper()
	var out bytes.Buffer
	res, err := WriteTar(context.Background(), &out, m.Src, m.State(t, s))
	must.OK(t, err)
	return out.Bytes(), res
}

func TestTarRoundTrip(t *testing.T) {
	data, res := archive(t, trees.NewMemory(), trees.TarTree())
	if len(res.Skipped) != 0 {
		t.Errorf("skipped %v", res.Skipped)
	}
	compressed := map[string][]byte{"plain": data}
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	z.Write(data)
	z.Close()
	compressed["gzip"] = gz.Bytes()
	enc, err := zstd.NewWriter(nil)
	must.OK(t, err)
	compressed["zstd"] = enc.EncodeAll(data, nil)
	for name, data := range compressed {
		t.Run(name, func(t *testing.T) {
			sink := trees.NewMapSink(t)
			must.OK(t, ReadTar(context.Background(), bytes.NewReader(data), sink.Add, stream.Options{}))
			trees.SameSpec(t, sink.Files, trees.Want(trees.TarTree()))
		})
	}
}

func TestTarIsReproducible(t *testing.T) {
	a, _ := archive(t, trees.NewMemory(), trees.TarTree())
	m := trees.NewMemory()
	m.Ino = 1000
	st := m.State(t, trees.TarTree())
	m.Seal(t, st)
	var b bytes.Buffer
	_, err := WriteTar(context.Background(), &b, m.Src, st)
	must.OK(t, err)
	if !bytes.Equal(a, b.Bytes()) {
		t.Error("the same tree made other bytes")
	}
}

func TestTarProgramsTakeIt(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("device nodes need root")
	}
	data, _ := archive(t, trees.NewMemory(), trees.TarTree())
	dir := t.TempDir()
	cmd := exec.Command("tar", "--xattrs", "--xattrs-include=*", "--numeric-owner", "-xpf", "-")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(data)
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	for _, list := range [][]string{
		{"bsdtar", "-tf", "-"},
		{"python3", "-c", "import sys, tarfile; list(tarfile.open(fileobj=sys.stdin.buffer, mode='r|'))"},
	} {
		if _, err := exec.LookPath(list[0]); err != nil {
			continue
		}
		cmd := exec.Command(list[0], list[1:]...)
		cmd.Stdin, cmd.Env = bytes.NewReader(data), append(os.Environ(), "LC_ALL=C.UTF-8")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", list[0], err, out)
		}
	}
	cmd = exec.Command("tar", "--format=pax", "--xattrs", "--xattrs-include=*", "--numeric-owner", "--sort=name", "-cf", "-", ".")
	cmd.Dir = dir
	data, err := cmd.Output()
	must.OK(t, err)
	sink := trees.NewMapSink(t)
	must.OK(t, ReadTar(context.Background(), bytes.NewReader(data), sink.Add, stream.Options{}))
	trees.SameSpec(t, sink.Files, trees.Want(trees.TarTree()))
}

func TestTarSkipsSockets(t *testing.T) {
	_, res := archive(t, trees.NewMemory(), trees.Spec{"s": {Mode: unix.S_IFSOCK | 0o755}, "f": trees.File("1")})
	if len(res.Skipped) != 1 || res.Skipped[0].Path != "s" {
		t.Errorf("skipped %v", res.Skipped)
	}
}

// headers returns an archive with the given headers. A regular file gets as many bytes of data as its size says.
func headers(t testing.TB, hs ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range hs {
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		must.OK(t, w.WriteHeader(&h))
		_, err := w.Write(bytes.Repeat([]byte{'x'}, int(h.Size)))
		must.OK(t, err)
	}
	must.OK(t, w.Close())
	return out.Bytes()
}

func reg(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 3} }

func TestHostileTars(t *testing.T) {
	sym := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	hard := func(name, to string) tar.Header { return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to} }
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"upwards":             {headers(t, reg("../x")), stream.ErrHostile},
		"upwards inside":      {headers(t, reg("a/../../x")), stream.ErrHostile},
		"upwards and back":    {headers(t, reg("a/../x")), stream.ErrHostile},
		"absolute":            {headers(t, reg("/etc/x")), stream.ErrHostile},
		"hard link out":       {headers(t, hard("h", "../x")), stream.ErrHostile},
		"hard link absolute":  {headers(t, hard("h", "/etc/passwd")), stream.ErrHostile},
		"hard link to itself": {headers(t, reg("h"), hard("h", "h")), stream.ErrHostile},
		"root is a file":      {headers(t, reg(".")), stream.ErrHostile},
		"long name":           {headers(t, reg(strings.Repeat("n", 256))), stream.ErrHostile},
		"long path":           {headers(t, reg(strings.Repeat("d/", 2100)+"f")), stream.ErrHostile},
		"long attribute": {headers(t, tar.Header{Typeflag: tar.TypeReg, Name: "f", Format: tar.FormatPAX,
			PAXRecords: map[string]string{"SCHILY.xattr.user." + strings.Repeat("n", 300): "1"}}), stream.ErrHostile},
		"strange owner":       {headers(t, tar.Header{Typeflag: tar.TypeReg, Name: "f", Uid: -2, Format: tar.FormatGNU}), stream.ErrHostile},
		"too big":             {headers(t, reg("a"), reg("b"), reg("c")), stream.ErrTooBig},
		"too many":            {headers(t, sym("1", "x"), sym("2", "x"), sym("3", "x"), sym("4", "x"), sym("5", "x"), sym("6", "x")), stream.ErrTooBig},
		"sparse, too big":     {sparseTar("4", "0\n4\n8\n5\n", 9), nil},
		"sparse, overlapping": {sparseTar("8", "0\n4\n3\n4\n", 8), nil},
		"sparse, too little":  {sparseTar("8", "0\n4\n4\n4\n", 7), nil},
		"sparse, no list":     {sparseTar("8", "0\n4\n4\nx\n", 8), nil},
		"sparse, many":        {sparseTar("8", strings.Repeat("0\n", 1<<20), 8), nil},
		"sparse, too much":    {sparseTar("99", "0\n4\n5\n50\n", 54), stream.ErrTooBig},
		"torn":                {headers(t, reg("a"))[:514], nil},
		"torn, filled":        {headers(t, reg("a"))[:1000], nil},
		"torn, no end":        {headers(t, reg("a"))[:1024], nil},
		"no archive":          {bytes.Repeat([]byte("no archive "), 100), nil},
		"torn gzip":           {[]byte{0x1f, 0x8b, 8, 0}, nil},
		"xz":                  {[]byte("\xfd7zXZ\x00\x00"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			sink := trees.NewMapSink(t)
			err := ReadTar(context.Background(), bytes.NewReader(c.data), sink.Add, stream.Options{Limits: stream.Limits{Entries: 5, Bytes: 8}})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			for p := range sink.Files {
				if strings.Contains(p, "..") || filepath.IsAbs(p) {
					t.Errorf("%q came through", p)
				}
			}
			t.Log(err)
		})
	}
}

// sparseTar returns an archive with a sparse file of format 1.0. realsize is the size of the file, list is its list
// of parts, and stored is the number of bytes of its data in the archive.
func sparseTar(realsize, list string, stored int) []byte {
	pax := paxRecords(map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "sparse", "GNU.sparse.realsize": realsize})
	list = fmt.Sprintf("%d\n%s", strings.Count(list, "\n")/2, list)
	list += strings.Repeat("\x00", pad(len(list)))
	data := list + strings.Repeat("x", stored)
	var b bytes.Buffer
	b.WriteString(ustar{name: "x", typeflag: tar.TypeXHeader, size: int64(len(pax))}.block())
	b.WriteString(pax + strings.Repeat("\x00", pad(len(pax))))
	b.WriteString(ustar{name: "y", typeflag: tar.TypeReg, size: int64(len(data))}.block())
	b.WriteString(data + strings.Repeat("\x00", pad(len(data))))
	b.Write(make([]byte, 2*blockSize))
	return b.Bytes()
}

// pad returns the number of bytes that fill the last block after n bytes.
func pad(n int) int { return -n & (blockSize - 1) }

func TestOddTarsAreTaken(t *testing.T) {
	data := headers(t,
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}},
		reg(".//.//g"), reg("f"), tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: 5},
		tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o700}, reg("d/f"), tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o711},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc/passwd"}, tar.Header{Typeflag: tar.TypeLink, Name: "k", Linkname: "./l"})
	sink := trees.NewMapSink(t)
	must.OK(t, ReadTar(context.Background(), bytes.NewReader(data), sink.Add, stream.Options{Owner: &stream.Owner{UID: 7, GID: 8}}))
	if sink.Files["f"].Data != "xxxxx" || sink.Meta["d"].Mode != unix.S_IFDIR|0o711 || sink.Files["g"].Data != "xxx" || sink.Files["k"].Hard != "l" {
		t.Errorf("got %+v", sink.Files)
	}
}

func FuzzReadTar(f *testing.F) {
	f.Add(headers(f, reg("a"), tar.Header{Typeflag: tar.TypeLink, Name: "b", Linkname: "a"}))
	f.Add(sparseTar("9", "1\n2\n", 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = ReadTar(context.Background(), bytes.NewReader(data), trees.Discard, stream.Options{Limits: stream.Limits{Bytes: trees.Mega}})
	})
}

// TestTarReadsToTheEnd: ReadTar compares the checksum after the end of a compressed archive, ignores other bytes
// there, and reads a plain archive to the end of its input.
func TestTarReadsToTheEnd(t *testing.T) {
	plain, _ := archive(t, trees.NewMemory(), trees.Spec{"a": trees.File(strings.Repeat("text\n", 10_000))})
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	must.OK(t, errors.Join(second(g.Write(plain)), g.Close()))
	z, err := zstd.NewWriter(&zs)
	must.OK(t, err)
	must.OK(t, errors.Join(second(z.Write(plain)), z.Close()))
	spoilt := func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)-1] ^= 1
		b[len(b)-5] ^= 1
		return b
	}
	followed := func(b []byte) []byte { return append(bytes.Clone(b), make([]byte, 600_000)...) }
	for name, c := range map[string]struct {
		data []byte
		ok   bool
	}{
		"gzip": {gz.Bytes(), true}, "zstd": {zs.Bytes(), true}, "plain, followed": {followed(plain), true},
		"gzip, followed": {followed(gz.Bytes()), true}, "zstd, followed": {followed(zs.Bytes()), true},
		"gzip, spoilt": {spoilt(gz.Bytes()), false}, "zstd, spoilt": {spoilt(zs.Bytes()), false},
		"gzip, cut": {gz.Bytes()[:gz.Len()-6], false}, "zstd, cut": {zs.Bytes()[:zs.Len()-2], false},
	} {
		in := bytes.NewReader(c.data)
		err := ReadTar(context.Background(), in, trees.Discard, stream.Options{})
		if c.ok != (err == nil) {
			t.Errorf("%s: error %v", name, err)
		}
		if name == "plain, followed" && in.Len() > 0 {
			t.Errorf("%s: %d bytes were left", name, in.Len())
		}
	}
}

func second(_ int, err error) error { return err }

// ustar has the fields of one header block.
type ustar struct {
	name           string // ASCII, at most 100 bytes
	typeflag       byte
	mode, uid, gid int64
	size, mtime    int64
}

func (u ustar) block() string {
	b := make([]byte, blockSize)
	octal := func(at, width int, v int64) { copy(b[at:], fmt.Sprintf("%0*o\x00", width-1, v)) }
	copy(b[:100], u.name)
	octal(100, 8, u.mode)
	octal(108, 8, u.uid)
	octal(116, 8, u.gid)
	octal(124, 12, u.size)
	octal(136, 12, u.mtime)
	copy(b[148:], "        ") // for the checksum, its own bytes count as blanks
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

// paxRecords encodes records, sorted by key, each with its length in front.
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
