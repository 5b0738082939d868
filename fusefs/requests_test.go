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
		want    AnsweredRequest
	}{
		{request(opcodeRead, 0), outHeader + 100, AnsweredRequest{Op: "READ", Read: 100}},
		{request(opcodeRead, 0), outHeader, AnsweredRequest{Op: "READ"}}, // an error
		{request(opcodeWrite, 4096), outHeader + 8, AnsweredRequest{Op: "WRITE", Written: 4096}},
		{request(opcodeWrite, 4096), outHeader, AnsweredRequest{Op: "WRITE"}}, // an error
		{request(45, 0), outHeader, AnsweredRequest{Op: "RENAME"}},            // RENAME2
		{request(12, 0), outHeader, AnsweredRequest{Op: "RENAME"}},
		{request(4000, 0), outHeader, AnsweredRequest{}},
		{nil, 0, AnsweredRequest{}},
	} {
		c.want.Took = time.Second
		if got := describeAnswer(c.request, c.size, time.Second); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}
