package page

import (
	"bufio"
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

// openContent opens a file of a snapshot; limit+1 bytes of it can be read. What the daemon refuses is
// passed on to the browser, and is nil here.
func (p *Page) openContent(w http.ResponseWriter, r *http.Request, limit int64) io.ReadCloser {
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
	if got.StatusCode == http.StatusOK {
		return got.Body
	}
	defer got.Body.Close()

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(got.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(got.Body, maxImage))

	return nil
}

// file answers with lines of a text from the line of the query on.
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	body := p.openContent(w, r, maxText)
	if body == nil {
		return
	}
	defer body.Close()

	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	n, err := strconv.Atoi(r.URL.Query().Get("lines"))
	if err != nil || n < 0 || n > pageLines {
		n = pageLines
	}

	text := bufio.NewReaderSize(body, 64<<10)
	head, _ := text.Peek(8 << 10)
	binary := bytes.IndexByte(head, 0) >= 0 // as git decides
	out, err := window(text, max(from, 0), n)
	switch {
	case err != nil:
		refuse(w, http.StatusBadGateway, "the daemon stopped answering")
		return
	case out.Size > maxText:
		out = listing{Kind: "very large", Size: out.Size, Lines: []string{}}
	case binary:
		out = listing{Kind: "binary", Size: out.Size, Lines: []string{}}
	}

	answer(w, http.StatusOK, out)
}

// window reads a text to its end and keeps n of its lines from a line on. Lines that are too
// long to read are cut. The memory it takes does not depend on the text's size.
func window(text *bufio.Reader, from, n int) (listing, error) {
	out := listing{Kind: "text", Lines: []string{}}
	var line []byte // the beginning of the present one
	begun := false

	for {
		piece, err := text.ReadSlice('\n')
		out.Size += int64(len(piece))
		begun = begun || len(piece) > 0
		wanted := out.Total >= from && out.Total-from < n
		if wanted {
			line = append(line, piece[:min(len(piece), maxLine+2-len(line))]...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}

		if begun {
			out.Total++
			if wanted {
				out.Lines = append(out.Lines, shown(bytes.TrimSuffix(line, []byte{'\n'})))
			}
		}

		line, begun = line[:0], false
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
}

func shown(line []byte) string {
	if len(line) > maxLine {
		return strings.ToValidUTF8(string(line[:maxLine]), "") + " …"
	}
	return strings.ToValidUTF8(string(line), "\uFFFD")
}

// image answers with an image, by the type that its first bytes say.
func (p *Page) image(w http.ResponseWriter, r *http.Request) {
	body := p.openContent(w, r, maxImage)
	if body == nil {
		return
	}
	defer body.Close()

	content := bufio.NewReader(body)
	head, _ := content.Peek(512)
	kind := http.DetectContentType(head)
	if !strings.HasPrefix(kind, "image/") || strings.Contains(kind, "svg") {
		refuse(w, http.StatusUnsupportedMediaType, "this image cannot be shown")
		return
	}

	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, err := io.CopyN(w, content, maxImage)
	if err == nil {
		_, err = content.ReadByte()
	}
	if err != io.EOF { // it is larger, or the daemon stopped: the browser takes no part of an image for it
		panic(http.ErrAbortHandler)
	}
}
