// Package decompress reads what is compressed.
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

// Reader finds out by the first bytes how a stream is compressed: by gzip, zstd, bzip2, or
// not at all.
func Reader(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head, err := in.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzip.NewReader(in)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// The window of `zstd --long`, more than which zstd itself asks for.
		const window = 128 << 20
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(window), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	case bytes.HasPrefix(head, []byte("BZh")):
		return io.NopCloser(bzip2.NewReader(in)), nil
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return nil, errors.New("it is compressed by xz: pipe it through xz -dc")
	}
	return io.NopCloser(in), nil
}
