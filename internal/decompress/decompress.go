// Package decompress reads compressed streams.
package decompress

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// FormatOf returns the compression of data by its first six bytes: gzip, zstd, bzip2, xz, or "" for none.
func FormatOf(head []byte) string {
	for kind, magic := range map[string]string{"gzip": "\x1f\x8b", "zstd": "\x28\xb5\x2f\xfd", "bzip2": "BZh", "xz": "\xfd7zXZ\x00"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return kind
		}
	}
	return ""
}

// NewReader returns a reader of the decompressed stream. It detects the compression by the first bytes:
// gzip, zstd, bzip2 or none. It fails for xz.
func NewReader(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head, err := in.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}

	switch FormatOf(head) {
	case "gzip":
		return gzip.NewReader(in)
	case "zstd":
		// window is the largest window of `zstd --long`. Without an option, zstd itself refuses streams with a larger
		// window.
		const window = 128 << 20
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(window), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil

	case "bzip2":
		return io.NopCloser(bzip2.NewReader(in)), nil
	case "xz":
		return nil, errors.New("it is compressed by xz: pipe it through xz -dc")
	}

	return io.NopCloser(in), nil
}
