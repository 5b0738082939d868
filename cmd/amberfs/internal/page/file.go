package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	// maxText bounds in bytes the text that is shown, maxImage an image.
	maxText  = 32 << 20
	maxImage = 64 << 20
	// pageLines are the lines of one answer, maxLine the bytes of one line.
	pageLines = 2000
	maxLine   = 4 << 10
)

type listing struct {
	Kind  string    `json:"kind"` // text, binary or very large
	Size  int64     `json:"size"`
	Total int       `json:"total"` // lines
	Lines [][]token `json:"lines"`
}

// A token is a piece of a line: its class and its text.
type token [2]string

// content reads a file of a snapshot, as ask does.
func (p *Page) content(w http.ResponseWriter, r *http.Request, limit int64) []byte {
	q := url.Values{"path": r.URL.Query()["path"], "limit": {strconv.FormatInt(limit+1, 10)}}
	if v := r.URL.Query().Get("snapshot"); v != "" {
		q.Set("snapshot", v)
	}
	return p.ask(w, r, http.MethodGet, "/v1/file", q, nil, limit)
}

// ask asks the daemon about the workspace of a request, for up to limit bytes and one.
// What it refuses is passed on to the browser, and is nil here.
func (p *Page) ask(w http.ResponseWriter, r *http.Request, method, path string, q url.Values, body io.Reader, limit int64) []byte {
	if v := r.URL.Query().Get("workspace"); v != "" {
		q.Set("workspace", v)
	}
	u := url.URL{Scheme: "http", Host: "amberfs", Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(r.Context(), method, u.String(), body)
	var got *http.Response
	if err == nil {
		got, err = p.o.Daemon.RoundTrip(req)
	}
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
	case bytes.IndexByte(b[:min(len(b), 8<<10)], 0) >= 0: // as git decides
		out.Kind = "binary"
	default:
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		n, err := strconv.Atoi(r.URL.Query().Get("lines"))
		if err != nil || n < 0 || n > pageLines {
			n = pageLines
		}
		out.Total, out.Lines = window(r.URL.Query().Get("path"), b, max(from, 0), n)
	}
	answer(w, http.StatusOK, out)
}

// window returns how many lines a text has, and n of them from a line on, coloured. Only of a
// text that is coloured it looks at the others.
func window(path string, text []byte, from, n int) (total int, lines [][]token) {
	if len(text) == 0 {
		return 0, [][]token{}
	}
	text = bytes.TrimSuffix(text, []byte{'\n'})
	total = bytes.Count(text, []byte{'\n'}) + 1
	from = min(from, total)
	n = min(n, total-from)
	if len(text) > maxColoured {
		for range from {
			_, text, _ = bytes.Cut(text, []byte{'\n'})
		}
		end := 0
		for range n {
			line, _, _ := bytes.Cut(text[end:], []byte{'\n'})
			end = min(end+len(line)+1, len(text))
		}
		text, from = text[:end], 0
	}
	if n == 0 {
		return total, [][]token{}
	}
	return total, colour(path, strings.ToValidUTF8(string(text), "\uFFFD")+"\n")[from:][:n]
}

// diff answers with hunks as the daemon does, coloured: a line has tokens in place of its
// text.
func (p *Page) diff(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	path := func(name string) any { return map[string][]byte{"bytes": []byte(q.Get(name))} }
	cursor, _ := strconv.Atoi(q.Get("cursor"))
	lines, _ := strconv.Atoi(q.Get("lines"))
	args, _ := json.Marshal(map[string]any{"a": q.Get("a"), "b": q.Get("b"), "path": path("path"), "from": path("from"), "cursor": cursor, "lines": lines}) // it never fails
	b := p.ask(w, r, http.MethodPost, "/v1/hunks", url.Values{}, bytes.NewReader(args), maxText)
	if b == nil {
		return
	}
	type line struct {
		Op     string  `json:"op"`
		Text   string  `json:"text,omitempty"`
		Tokens []token `json:"tokens"`
	}
	var out, hunk map[string]json.RawMessage
	var hunks []json.RawMessage
	err := errors.Join(json.Unmarshal(b, &out), json.Unmarshal(out["hunks"], &hunks))
	for i := 0; i < len(hunks) && err == nil; i++ {
		var lines []line
		hunk = nil
		if err = errors.Join(json.Unmarshal(hunks[i], &hunk), json.Unmarshal(hunk["lines"], &lines)); err != nil {
			break
		}
		for _, side := range []string{"+", "-"} { // what is on both is coloured as it was before
			var text strings.Builder
			for _, l := range lines {
				if l.Op != side {
					text.WriteString(l.Text + "\n")
				}
			}
			coloured := colour(q.Get("path"), text.String())
			for i, n := 0, 0; i < len(lines); i++ {
				if lines[i].Op != side {
					lines[i].Tokens = coloured[n]
					n++
				}
			}
		}
		for i := range lines {
			lines[i].Text = ""
		}
		hunk["lines"], _ = json.Marshal(lines)
		hunks[i], _ = json.Marshal(hunk)
	}
	if err != nil {
		refuse(w, http.StatusBadGateway, "the daemon's answer cannot be read")
		return
	}
	out["hunks"], _ = json.Marshal(hunks)
	answer(w, http.StatusOK, out)
}

// image answers with an image, by the type that its first bytes say.
func (p *Page) image(w http.ResponseWriter, r *http.Request) {
	b := p.content(w, r, maxImage)
	if b == nil {
		return
	}
	kind := http.DetectContentType(b)
	if len(b) > maxImage || !strings.HasPrefix(kind, "image/") || strings.Contains(kind, "svg") {
		refuse(w, http.StatusUnsupportedMediaType, "this image cannot be shown")
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, _ = w.Write(b)
}
