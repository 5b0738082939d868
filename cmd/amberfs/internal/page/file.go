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
	// maxTextBytes and maxImageBytes are the largest sizes in bytes of a text and of an image that are shown.
	maxTextBytes  = 32 << 20
	maxImageBytes = 64 << 20
	// maxAnswerLines is the maximum number of lines in an answer. Lines are cut to maxLineBytes.
	maxAnswerLines = 2000
	maxLineBytes   = 4 << 10
)

// A listing is an answer with some lines of a file.
type listing struct {
	Kind  string   `json:"kind"` // text, binary or very large
	Size  int64    `json:"size"`
	Total int      `json:"total"` // number of lines of the file
	Lines []string `json:"lines"`
}

// openContent requests a file of a snapshot from the daemon, at most limit+1 bytes of it. If the daemon
// refuses the request, openContent passes the answer on to the browser and returns nil.
func (p *Page) openContent(w http.ResponseWriter, r *http.Request, limit int64) io.ReadCloser {
	q := url.Values{"path": r.URL.Query()["path"], "limit": {strconv.FormatInt(limit+1, 10)}}
	for _, name := range []string{"snapshot", "workspace"} {
		if v := r.URL.Query().Get(name); v != "" {
			q.Set(name, v)
		}
	}

	u := url.URL{Scheme: "http", Host: "amberfs", Path: "/v1/file", RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, u.String(), nil)
	var response *http.Response
	if err == nil {
		response, err = p.options.Daemon.RoundTrip(req)
	}

	if err != nil {
		sendError(w, http.StatusBadGateway, "the daemon does not answer; is the workspace still mounted?")
		return nil
	}
	if response.StatusCode == http.StatusOK {
		return response.Body
	}
	defer response.Body.Close()

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(response.Body, maxImageBytes))

	return nil
}

// serveFile answers with a listing: the lines of a file, beginning with the line that the field "from" of the query
// names.
func (p *Page) serveFile(w http.ResponseWriter, r *http.Request) {
	body := p.openContent(w, r, maxTextBytes)
	if body == nil {
		return
	}
	defer body.Close()

	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	n, err := strconv.Atoi(r.URL.Query().Get("lines"))
	if err != nil || n < 0 || n > maxAnswerLines {
		n = maxAnswerLines
	}

	text := bufio.NewReaderSize(body, 64<<10)
	head, _ := text.Peek(8 << 10)
	binary := bytes.IndexByte(head, 0) >= 0 // git uses the same test
	out, err := readLines(text, max(from, 0), n)
	switch {
	case err != nil:
		sendError(w, http.StatusBadGateway, "the daemon stopped answering")
		return
	case out.Size > maxTextBytes:
		out = listing{Kind: "very large", Size: out.Size, Lines: []string{}}
	case binary:
		out = listing{Kind: "binary", Size: out.Size, Lines: []string{}}
	}

	sendJSON(w, http.StatusOK, out)
}

// readLines reads a text to its end, and returns up to maxLines of its lines, beginning with the line firstLine, counted from 0. It cuts
// long lines, so that its memory does not depend on the size of the text.
func readLines(text *bufio.Reader, firstLine, maxLines int) (listing, error) {
	out := listing{Kind: "text", Lines: []string{}}
	var line []byte    // the bytes of the current line so far, at most maxLineBytes+2
	lineBegun := false // a byte of the current line was read

	for {
		piece, err := text.ReadSlice('\n')
		out.Size += int64(len(piece))
		lineBegun = lineBegun || len(piece) > 0
		wanted := out.Total >= firstLine && out.Total-firstLine < maxLines
		if wanted {
			line = append(line, piece[:min(len(piece), maxLineBytes+2-len(line))]...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}

		if lineBegun {
			out.Total++
			if wanted {
				out.Lines = append(out.Lines, shownLine(bytes.TrimSuffix(line, []byte{'\n'})))
			}
		}

		line, lineBegun = line[:0], false
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
}

// shownLine returns a line as valid UTF-8, cut to maxLineBytes.
func shownLine(line []byte) string {
	if len(line) > maxLineBytes {
		return strings.ToValidUTF8(string(line[:maxLineBytes]), "") + " …"
	}
	return strings.ToValidUTF8(string(line), "\uFFFD")
}

// serveImage answers with an image. It detects the type from the first bytes.
func (p *Page) serveImage(w http.ResponseWriter, r *http.Request) {
	body := p.openContent(w, r, maxImageBytes)
	if body == nil {
		return
	}
	defer body.Close()

	content := bufio.NewReader(body)
	head, _ := content.Peek(512)
	kind := http.DetectContentType(head)
	if !strings.HasPrefix(kind, "image/") || strings.Contains(kind, "svg") {
		sendError(w, http.StatusUnsupportedMediaType, "this image cannot be shown")
		return
	}

	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
	_, err := io.CopyN(w, content, maxImageBytes)
	if err == nil {
		_, err = content.ReadByte()
	}
	if err != io.EOF { // too large or incomplete: close the connection, so that the browser shows no part of the image
		panic(http.ErrAbortHandler)
	}
}
