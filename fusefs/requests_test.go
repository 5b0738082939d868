package fusefs

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestAnswered(t *testing.T) {
	request := func(op uint32, size uint32) []byte {
		b := make([]byte, 80)
		binary.NativeEndian.PutUint32(b[4:], op)
		binary.NativeEndian.PutUint32(b[writeSize:], size)
		return b
	}
	for _, c := range []struct {
		request []byte
		size    int
		want    Answered
	}{
		{request(opcodeRead, 0), outHeader + 100, Answered{Op: "READ", Read: 100}},
		{request(opcodeRead, 0), outHeader, Answered{Op: "READ"}}, // an error
		{request(opcodeWrite, 4096), outHeader + 8, Answered{Op: "WRITE", Written: 4096}},
		{request(opcodeWrite, 4096), outHeader, Answered{Op: "WRITE"}}, // an error
		{request(45, 0), outHeader, Answered{Op: "RENAME"}},            // RENAME2
		{request(12, 0), outHeader, Answered{Op: "RENAME"}},
		{request(4000, 0), outHeader, Answered{}},
		{nil, 0, Answered{}},
	} {
		c.want.Took = time.Second
		if got := answered(c.request, c.size, time.Second); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}
