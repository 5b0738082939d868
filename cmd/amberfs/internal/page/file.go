package page

import (
	"bytes"
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
	Kind  string   `json:"kind"` // text, binary or very large
	Size  int64    `json:"size"`
	Total int      `json:"total"` // lines
	Lines []string `json:"lines"`
}

// content reads a file of a snapshot, up to limit bytes and one. What the daemon refuses is
// passed on to the browser, and is nil here.
func (p *Page) content(w http.ResponseWriter, r *http.Request, limit int64) []byte {
	q := url.Values{"path": r.URL.Query()["path"], "limit": {strconv.FormatInt(limit+1, 10)}}
	for _, name := range []string{"snapshot", "workspace"} {
		if v := r.URL.Query().Get(name); v != "" {
			q.Set(name, v)
		}
	}
	u := url.URL{Scheme: "http", Host: "amberfs", Path: "/v1/file", RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, u.String(), nil)
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

// file answers with lines of a text from the line of the query on.
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	b := p.content(w, r, maxText)
	if b == nil {
		return
	}
	out := listing{Kind: "text", Size: int64(len(b)), Lines: []string{}}
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
		out.Total, out.Lines = window(b, max(from, 0), n)
	}
	answer(w, http.StatusOK, out)
}

// window returns how many lines a text has, and n of them from a line on. Lines that are too
// long to read are cut.
func window(text []byte, from, n int) (total int, lines []string) {
	lines = []string{}
	if len(text) == 0 {
		return 0, lines
	}
	text = bytes.TrimSuffix(text, []byte{'\n'})
	total = bytes.Count(text, []byte{'\n'}) + 1
	from = min(from, total)
	for range from {
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	for range min(n, total-from) {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if len(line) > maxLine {
			lines = append(lines, strings.ToValidUTF8(string(line[:maxLine]), "")+" …")
		} else {
			lines = append(lines, strings.ToValidUTF8(string(line), "\uFFFD"))
		}
	}
	return total, lines
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
