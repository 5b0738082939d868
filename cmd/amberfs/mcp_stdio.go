package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lockedWriter is for writers of whole messages.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Close leaves the output as it is: it is the process's.
func (l *lockedWriter) Close() error { return nil }

// wellFormed passes on the lines of in that are messages, and answers the others:
// the SDK would end the session.
func wellFormed(in io.Reader, out io.Writer) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 1 && !isMessage(line, out) {
				line = nil
			}
			if _, werr := w.Write(line); werr != nil {
				return
			}
			if err != nil {
				w.CloseWithError(err)
				return
			}
		}
	}()
	return r
}

// isMessage reports whether a line is a JSON-RPC message, and says to out what is
// wrong with one that is none.
func isMessage(line []byte, out io.Writer) bool {
	code, text := -32700, "this is not JSON"
	if json.Valid(line) {
		if _, err := jsonrpc.DecodeMessage(line); err == nil {
			return true
		}
		code, text = -32600, "this is no JSON-RPC 2.0 message"
	}
	fmt.Fprintf(out, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, text)
	return false
}
