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

// maxMessageBytes is the maximum size of a message of a client, as in the SDK.
const maxMessageBytes = mcp.DefaultMaxLineLength

// The errors of JSON-RPC for lines that are not requests.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
)

// stdioTransport returns a transport over the standard input and output. The SDK ends a session at the first
// line that is not a message. This transport answers such a line with an error, and reads the next one.
func stdioTransport(in io.Reader, out io.Writer) *mcp.IOTransport {
	w := &answerWriter{w: out, unanswered: make(map[string]bool), answered: make(chan struct{}, 1)}
	r, pipe := io.Pipe()
	go func() {
		err := forwardMessages(bufio.NewReader(in), pipe, w)
		w.waitForAnswers()
		pipe.CloseWithError(err)
	}()

	return &mcp.IOTransport{Reader: r, Writer: w}
}

// maxAnswerWait is how long the server waits for unanswered requests after the end of the input. It is limited, because
// a client that has ended reads no answers.
const maxAnswerWait = 10 * time.Second

// An answerWriter writes one message at a time, and records the requests without an answer.
type answerWriter struct {
	mu         sync.Mutex
	w          io.Writer
	unanswered map[string]bool // the ids of requests without an answer
	answered   chan struct{}   // gets a value when an answer is recorded
}

// A messageHeader has the fields of a message by which requests, answers and notifications differ.
type messageHeader struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"` // in notifications/cancelled: the id of the cancelled request
	} `json:"params"`
}

func (l *answerWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	n, err := l.w.Write(p)
	var h messageHeader
	if json.Unmarshal(p, &h) == nil && h.Method == "" {
		l.recordAnswer(h.ID)
	}

	return n, err
}

// recordRequest records a request of the client. If line cancels a request, recordRequest removes that request.
func (l *answerWriter) recordRequest(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()

	var h messageHeader
	_ = json.Unmarshal(line, &h) // fails if params is a list: then line cancels no request

	switch {
	case h.Method == "notifications/cancelled":
		l.recordAnswer(h.Params.RequestID)
	case h.Method != "" && len(h.ID) > 0:
		l.unanswered[string(h.ID)] = true
	}
}

// recordAnswer records the answer to a request. The caller holds mu.
func (l *answerWriter) recordAnswer(id json.RawMessage) {
	delete(l.unanswered, string(id))
	select {
	case l.answered <- struct{}{}:
	default:
	}
}

// waitForAnswers waits until each request has its answer.
func (l *answerWriter) waitForAnswers() {
	limit := time.After(maxAnswerWait)

	for {
		l.mu.Lock()
		n := len(l.unanswered)
		l.mu.Unlock()
		if n == 0 {
			return
		}

		select {
		case <-l.answered:
		case <-limit:
			return
		}
	}
}

// Close implements io.WriteCloser. The process keeps its standard output.
func (l *answerWriter) Close() error { return nil }

// forwardMessages passes each line that is a message on to the session. It answers other lines with an error.
func forwardMessages(in *bufio.Reader, session io.Writer, answers *answerWriter) error {
	for {
		line, long, err := readLine(in)
		if err != nil && len(line) == 0 && !long {
			return err
		}

		line = bytes.TrimSpace(line)
		code, text := 0, ""

		switch _, derr := jsonrpc.DecodeMessage(line); {
		case long:
			code, text = codeInvalidRequest, "the message is too long"
		case len(line) == 0:
			continue
		case !json.Valid(line):
			code, text = codeParseError, "the line is not valid JSON"
		case line[0] == '[':
			code, text = codeInvalidRequest, "batches are not supported"
		case derr != nil:
			code, text = codeInvalidRequest, "the line is not a message of JSON-RPC: "+derr.Error()
		}

		if code == 0 {
			answers.recordRequest(line)
			if _, err := session.Write(append(line, '\n')); err != nil {
				return err // the session has ended
			}

			continue
		}

		var asked struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(line, &asked) // if the line has no id, asked.ID stays empty
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

// readLine reads a line. If the line is too long, it returns no line, and tooLong is true.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxMessageBytes; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}
