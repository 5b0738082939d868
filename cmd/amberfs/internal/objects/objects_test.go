package objects

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/amberfs/amberfs/cas"
)

var errNone = errors.New("no such object")

// serve connects a client to a store of the numbers below n. The errors of the
// server come from the channel.
func serve(t *testing.T, n int) (*Client, []cas.Hash, func() error) {
	t.Helper()
	objects := make(map[cas.Hash][]byte)
	var hashes []cas.Hash
	for i := range n {
		b := bytes.Repeat(fmt.Appendf(nil, "%d,", i), i)
		objects[cas.Sum(b)] = b
		hashes = append(hashes, cas.Sum(b))
	}
	askR, askW := io.Pipe()
	answerR, answerW := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Serve(askR, answerW, func(h cas.Hash, dst []byte) ([]byte, error) {
			b, ok := objects[h]
			if !ok {
				return nil, errNone
			}
			return append(dst[:0], b...), nil
		})
		answerW.Close()
		askR.Close()
		ended <- err
	}()
	return NewClient(askW, answerR), hashes, func() error {
		askW.Close()
		return <-ended
	}
}

func TestObjectsArriveWhole(t *testing.T) {
	c, hashes, end := serve(t, 3000)
	if err := c.Prefetch(hashes[:2500]); err != nil {
		t.Fatal(err)
	}
	var dst []byte
	for i := len(hashes) - 1; i >= 0; i-- {
		var err error
		if dst, err = c.Get(hashes[i], dst); err != nil {
			t.Fatal(err)
		}
		if cas.Sum(dst) != hashes[i] {
			t.Fatalf("object %d is another", i)
		}
	}
	if len(c.ahead) != 0 {
		t.Errorf("%d objects are still held", len(c.ahead))
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestMissingObjects(t *testing.T) {
	c, hashes, end := serve(t, 2)
	if _, err := c.Get(cas.Sum([]byte("nothing")), nil); err == nil {
		t.Error("an object that does not exist was found")
	}
	if _, err := c.Get(hashes[0], nil); err == nil {
		t.Error("the conversation went on")
	}
	if err := end(); !errors.Is(err, errNone) {
		t.Errorf("the server ended with %v", err)
	}
}

func TestBrokenRequests(t *testing.T) {
	get := func(cas.Hash, []byte) ([]byte, error) { return nil, nil }
	for name, b := range map[string][]byte{"too many": {255, 255, 255, 255}, "torn": {2, 0, 0, 0, 1, 2, 3}} {
		if err := Serve(bytes.NewReader(b), io.Discard, get); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := Serve(bytes.NewReader(nil), io.Discard, get); err != nil {
		t.Errorf("nothing: %v", err)
	}
}
