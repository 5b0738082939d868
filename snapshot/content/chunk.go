package content

import (
	"bytes"
	"fmt"
	"sync"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"
	_ "github.com/PlakarKorp/go-cdc-chunkers/chunkers/fastcdc" // registers fastcdc-v1.0.0
)

// Where data is cut into chunks depends on the data only: FastCDC looks for a
// place of its own liking between minChunk and maxChunk bytes. These numbers and
// the algorithm are part of the format: other cuts would make other hashes of
// the same file.
const (
	chunkAlgorithm = "fastcdc-v1.0.0"

	minChunk = 16 << 10
	avgChunk = 64 << 10
	maxChunk = 256 << 10
)

// cutter finds where chunks end. It is not safe for concurrent use.
type cutter struct {
	fastcdc *chunkers.Chunker
	data    bytes.Reader
}

var cutters = sync.Pool{New: func() any {
	c := &cutter{}
	opts := &chunkers.ChunkerOpts{MinSize: minChunk, NormalSize: avgChunk, MaxSize: maxChunk}
	var err error
	if c.fastcdc, err = chunkers.NewChunkerBuffer(chunkAlgorithm, &c.data, opts, make([]byte, maxChunk)); err != nil {
		panic(fmt.Sprintf("chunker %s: %v", chunkAlgorithm, err)) // the constants above are wrong
	}
	return c
}}

// cut returns the length of the chunk that data begins with, as far as data
// goes. It is final if data is all that follows, or has maxChunk bytes, or if it
// is less than len(data).
//
// A chunk ends where a hash over its bytes and the one behind its end fulfils a
// condition; what comes after that byte does not matter.
func (c *cutter) cut(data []byte) int {
	c.data.Reset(data)
	c.fastcdc.Reset(&c.data)
	chunk, _ := c.fastcdc.Next() // reading from memory does not fail
	return len(chunk)
}

// firstLook is how much data is looked at first. Few chunks are longer.
const firstLook = maxChunk / 2
