package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage is the maximum size in bytes of a message of a client, as in the SDK.
const maxMessage = mcp.DefaultMaxLineLength

// The errors of JSON-RPC for lines that are not requests.
const (
	codeParse   = -32700
	codeInvalid = -32600
)

// stdioTransport returns a transport over the standard input and output. The SDK ends a session at the first
// line that is not a message. This transport answers such a line with an error, and reads the next one.
func stdioTransport(in io.Reader, out io.Writer) *mcp.IOTransport {
	w := &lockedWriter{w: out, asked: make(map[string]bool), idle: make(chan struct{}, 1)}
	r, pipe := io.Pipe()
	go func() {
		err := passMessages(bufio.NewReader(in), pipe, w)
		w.drain()
		pipe.CloseWithError(err)
	}()

	return &mcp.IOTransport{Reader: r, Writer: w}
}

// drainTime is the longest time that requests may take after the end of the input: a client that has
// ended does not wait for answers.
const drainTime = 10 * time.Second

// A lockedWriter writes one message at a time, and records the requests without an answer.
type lockedWriter struct {
	mu    sync.Mutex
	w     io.Writer
	asked map[string]bool // the ids of requests without an answer
	idle  chan struct{}   // has a value after an answer
}

// A header has the fields of a message by which requests, answers and notifications differ.
type header struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"` // of notifications/cancelled
	} `json:"params"`
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	n, err := l.w.Write(p)
	var h header
	if json.Unmarshal(p, &h) == nil && h.Method == "" {
		l.recordAnswer(h.ID)
	}

	return n, err
}

// recordRequest records a request of the client. If line cancels a request, recordRequest removes that request.
func (l *lockedWriter) recordRequest(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()

	var h header
	_ = json.Unmarshal(line, &h) // it fails if params is a list, which is no cancellation

	switch {
	case h.Method == "notifications/cancelled":
		l.recordAnswer(h.Params.RequestID)
	case h.Method != "" && len(h.ID) > 0:
		l.asked[string(h.ID)] = true
	}
}

// recordAnswer records the answer to a request. The caller holds mu.
func (l *lockedWriter) recordAnswer(id json.RawMessage) {
	delete(l.asked, string(id))
	select {
	case l.idle <- struct{}{}:
	default:
	}
}

// drain waits until each request has its answer.
func (l *lockedWriter) drain() {
	limit := time.After(drainTime)

	for {
		l.mu.Lock()
		n := len(l.asked)
		l.mu.Unlock()
		if n == 0 {
			return
		}

		select {
		case <-l.idle:
		case <-limit:
			return
		}
	}
}

// Close implements io.WriteCloser. The process keeps its standard output.
func (l *lockedWriter) Close() error { return nil }

// passMessages passes each line that is a message on to the session. It answers other lines with an error.
func passMessages(in *bufio.Reader, to io.Writer, answers *lockedWriter) error {
	for {
		line, long, err := messageLine(in)
		if err != nil && len(line) == 0 && !long {
			return err
		}

		line = bytes.TrimSpace(line)
		code, text := 0, ""

		switch _, derr := jsonrpc.DecodeMessage(line); {
		case long:
			code, text = codeInvalid, "the message is too long"
		case len(line) == 0:
			continue
		case !json.Valid(line):
			code, text = codeParse, "the line is not valid JSON"
		case line[0] == '[':
			code, text = codeInvalid, "batches are not supported"
		case derr != nil:
			code, text = codeInvalid, "the line is not a message of JSON-RPC: "+derr.Error()
		}

		if code == 0 {
			answers.recordRequest(line)
			if _, err := to.Write(append(line, '\n')); err != nil {
				return err // the session has ended
			}

			continue
		}

		var asked struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(line, &asked) // without an id, it is null
		if len(asked.ID) == 0 || asked.ID[0] == '{' || asked.ID[0] == '[' {
			asked.ID = json.RawMessage("null")
		}

		answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": asked.ID, "error": map[string]any{"code": code, "message": text}})
		if err == nil {
			_, err = answers.Write(append(answer, '\n'))
		}
		if err != nil {
			return err
		}
	}
}

// messageLine reads a line. If the line is too long, it returns no line and reports long.
func messageLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxMessage; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}
