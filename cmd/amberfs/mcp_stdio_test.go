package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestMCPMalformedLines: the server answers a line that is not a message with an error, and the session continues.
func TestMCPMalformedLines(t *testing.T) {
	a := newApp(nil, io.Discard, io.Discard)
	a.dir = t.TempDir()
	s, err := newMCPServer(a, "standard")
	must.OK(t, err)
	in, lines := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), stdioTransport(in, out)) }()
	read := bufio.NewReader(answers)
	ask := func(line string) (id any, code int) {
		t.Helper()
		if _, err := io.WriteString(lines, line+"\n"); err != nil {
			t.Fatalf("%.60q: %v", line, err)
		}
		text, err := read.ReadBytes('\n')
		var got struct {
			ID    any
			Error struct{ Code int }
		}
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil {
			t.Fatalf("%.60q: %q, %v", line, text, err)
		}
		return got.ID, got.Error.Code
	}
	if id, code := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`); id != 1.0 || code != 0 {
		t.Fatal(id, code)
	}
	_, err = io.WriteString(lines, "\n\r\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	must.OK(t, err)
	for i, c := range []struct {
		line string
		id   any
		code int
	}{
		{"x", nil, codeParseError},
		{`{"jsonrpc":"2.0","id":7,"method":`, nil, codeParseError},
		{"\xff\x00", nil, codeParseError},
		{`{} {}`, nil, codeParseError},
		{"7", nil, codeInvalidRequest},
		{"null", nil, codeInvalidRequest},
		{"{}", nil, codeInvalidRequest},
		{`{"jsonrpc":"1.0","id":8,"method":"ping"}`, 8.0, codeInvalidRequest},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, codeInvalidRequest},
		{`[]`, nil, codeInvalidRequest},
		{`[{"jsonrpc":"2.0","id":9,"method":"ping"}]`, nil, codeInvalidRequest},
		{`{"jsonrpc":"2.0","id":10,"method":"nosuch"}`, 10.0, -32601},
		{`{"x":"` + strings.Repeat("x", maxMessageBytes) + `"}`, nil, codeInvalidRequest},
	} {
		if id, code := ask(c.line); id != c.id || code != c.code {
			t.Errorf("%.60q: id %v, code %d, want %v and %d", c.line, id, code, c.id, c.code)
		}
		if id, code := ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, 100+i)); id != float64(100+i) || code != 0 {
			t.Errorf("after %.60q: id %v, code %d", c.line, id, code)
		}
	}
	lines.Close()
	<-ended
}
