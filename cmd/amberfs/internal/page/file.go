package page

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxText bounds in bytes the text that is shown, maxImage an image.
	maxText  = 32 << 20
	maxImage = 64 << 20
	// pageLines are the lines of one answer, maxLine the bytes of one line.
	pageLines = 2000
	maxLine   = 4 << 10
	// maxEvents are the newest events that are shown of a file.
	maxEvents = 500
)

// A listing is a part of a file, as the page shows it.
type listing struct {
	Kind  string    `json:"kind"` // text, binary or very large
	Size  int64     `json:"size"`
	Total int       `json:"total"` // lines
	Lines [][]token `json:"lines"`
}

// A token is a piece of a line: its class and its text.
type token [2]string

// ask gets what the daemon has below a path; the caller closes it.
func (p *Page) ask(r *http.Request, path string, q url.Values) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "amberfs", Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	return p.o.Daemon.RoundTrip(req)
}

// content reads a file of a snapshot, up to limit bytes and one. What the daemon
// refuses is passed on to the browser, and is nil here.
func (p *Page) content(w http.ResponseWriter, r *http.Request, limit int64) []byte {
	q := url.Values{"path": r.URL.Query()["path"], "limit": {strconv.FormatInt(limit+1, 10)}}
	for _, k := range []string{"snapshot", "workspace"} {
		if v := r.URL.Query().Get(k); v != "" {
			q.Set(k, v)
		}
	}
	got, err := p.ask(r, "/v1/file", q)
	if err != nil {
		refuse(w, http.StatusBadGateway, "the daemon does not answer; is the workspace still mounted?")
		return nil
	}
	defer got.Body.Close()
	b, err := io.ReadAll(io.LimitReader(got.Body, limit+1))
	if err != nil {
		refuse(w, http.StatusBadGateway, "the daemon stopped answering")
		return nil
	}
	if got.StatusCode != http.StatusOK {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(got.StatusCode)
		_, _ = w.Write(b)
		return nil
	}
	if b == nil {
		b = []byte{}
	}
	return b
}

// file answers with lines of a text, coloured, from the line of the query on.
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	b := p.content(w, r, maxText)
	if b == nil {
		return
	}
	out := listing{Kind: "text", Size: int64(len(b)), Lines: [][]token{}}
	switch {
	case len(b) > maxText:
		out.Kind = "very large"
	case bytes.IndexByte(b[:min(len(b), 8<<10)], 0) >= 0 || !utf8.Valid(b[:min(len(b), 8<<10)]) && !mostlyText(b):
		out.Kind = "binary"
	default:
		lines := p.colours.lines(r.URL.Query().Get("path"), b)
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		from = min(max(from, 0), len(lines))
		out.Total, out.Lines = len(lines), lines[from:min(len(lines), from+pageLines)]
	}
	answer(w, http.StatusOK, out)
}

// mostlyText reports whether a text in an old encoding may be shown: few of its
// bytes are not UTF-8.
func mostlyText(b []byte) bool {
	b = b[:min(len(b), 8<<10)]
	return bytes.Count([]byte(strings.ToValidUTF8(string(b), "\x00")), []byte{0})*10 < len(b)
}

// image answers with an image, by the type that its first bytes say.
func (p *Page) image(w http.ResponseWriter, r *http.Request) {
	b := p.content(w, r, maxImage)
	if b == nil {
		return
	}
	kind := http.DetectContentType(b)
	if len(b) > maxImage || !strings.HasPrefix(kind, "image/") || strings.Contains(kind, "svg") {
		refuse(w, http.StatusUnsupportedMediaType, "this is no image that can be shown")
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(b)
}

// events answers with the newest events of a path.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	q := url.Values{"path": r.URL.Query()["path"]}
	if v := r.URL.Query().Get("workspace"); v != "" {
		q.Set("workspace", v)
	}
	got, err := p.ask(r, "/v1/events", q)
	if err != nil {
		refuse(w, http.StatusBadGateway, "the daemon does not answer; is the workspace still mounted?")
		return
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		refuse(w, http.StatusBadGateway, "the daemon has no events of this path")
		return
	}
	events, err := readEvents(got.Body)
	if err != nil {
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]any{"events": events})
}

// readEvents reads a stream of server-sent events, newest first.
func readEvents(r io.Reader) ([]json.RawMessage, error) {
	events := []json.RawMessage{}
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if data, ok := bytes.CutPrefix(s.Bytes(), []byte("data: ")); ok && json.Valid(data) {
			events = append(events, bytes.Clone(data))
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	for i, j := 0, len(events)-1; i < j; i, j = i+1, j-1 {
		events[i], events[j] = events[j], events[i]
	}
	return events[:min(len(events), maxEvents)], nil
}
