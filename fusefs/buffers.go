package fusefs

import "sync"

// buffers are for one request and one answer.
type buffers struct{ in, out []byte }

// inPid is where struct fuse_in_header has the client's thread.
const inPid = 32

// slack is room for the headers beside the data of the largest request.
const slack = 8 << 10

// spareBuffers are those that no reader has at present: readers come and go while
// requests are large.
var spareBuffers = sync.Pool{New: func() any {
	return &buffers{make([]byte, maxIO+slack), make([]byte, maxIO+slack)}
}}
