package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/amberfs/amberfs/tests/must"
)

// daemon stands for the daemon's socket. It records the requests.
type daemon struct {
	asked  []string
	body   string // of the last request
	answer string
}

func (d *daemon) RoundTrip(r *http.Request) (*http.Response, error) {
	d.asked = append(d.asked, r.Method+" "+r.URL.RequestURI())
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		d.body = string(b)
	}
	if r.Header.Get(sessionHeader) != "" {
		return nil, fmt.Errorf("the key left the page")
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(d.answer)), Request: r, ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// A body counts the calls of Close.
type body struct {
	io.Reader
	closed *int
}

func (b body) Close() error { *b.closed++; return nil }

type refusing struct{ closed int }

func (d *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 404, Body: body{strings.NewReader(`{"error":"no"}`), &d.closed}, Request: r, Header: http.Header{}}, nil
}

// TestRefusedAnswersAreClosed: the page closes the body of an answer with which the daemon refuses a request, so
// that the connection can be used again.
func TestRefusedAnswersAreClosed(t *testing.T) {
	for _, path := range []string{"/file?path=a", "/image?path=a"} {
		d := &refusing{}
		if w := enter(t, Options{Daemon: d}).do("GET", path, ""); w.Code == 200 || d.closed != 1 {
			t.Errorf("%s: status %d, closed %d times", path, w.Code, d.closed)
		}
	}
}

type broken struct{}

func (broken) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(iotest.ErrReader(net.ErrClosed)), Request: r, Header: http.Header{}}, nil
}

// TestBrokenAnswersAreQuiet: a stream of events that ends early prints nothing on the terminal.
func TestBrokenAnswersAreQuiet(t *testing.T) {
	var said bytes.Buffer
	log.SetOutput(&said)
	defer log.SetOutput(os.Stderr)
	enter(t, Options{Daemon: broken{}}).do("POST", "/api/v1/events", "{}")
	if said.Len() > 0 {
		t.Errorf("the page prints %s", &said)
	}
}

// hasty begins its answer before it has read the end of the request.
type hasty struct{}

func (hasty) RoundTrip(r *http.Request) (*http.Response, error) {
	begin := strings.NewReader(strings.Repeat("x", 64<<10)) // more than the buffers of the server
	if _, err := io.CopyN(io.Discard, r.Body, r.ContentLength); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(begin, r.Body)), Request: r, Header: http.Header{}}, nil
}

// TestAnswersBeforeTheEnd: the browser gets the whole answer even if the daemon begins the answer before it has read
// the whole request.
func TestAnswersBeforeTheEnd(t *testing.T) {
	v := enter(t, Options{Daemon: hasty{}})
	server := httptest.NewServer(v.h)
	defer server.Close()
	r, err := http.NewRequest("POST", server.URL+"/api/v1/list", strings.NewReader("{}"))
	must.OK(t, err)
	r.Host = v.host
	r.Header.Set(sessionHeader, v.key)
	resp, err := server.Client().Do(r)
	must.OK(t, err)
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || len(b) != 64<<10 {
		t.Errorf("%d bytes: %v", len(b), err)
	}
}

type visitor struct {
	t         *testing.T
	h         http.Handler
	host, key string
}

func (v *visitor) do(method, path, body string, set ...func(*http.Request)) *httptest.ResponseRecorder {
	v.t.Helper()
	r := httptest.NewRequest(method, "http://"+v.host+":4711"+path, strings.NewReader(body))
	r.Header.Set(sessionHeader, v.key)
	for _, f := range set {
		f(r)
	}
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, r)
	return w
}

func enter(t *testing.T, o Options) *visitor {
	t.Helper()
	p := New(o)
	v := &visitor{t: t, h: p.Handler(), host: p.guard.host}
	w := v.do("POST", "/session", fmt.Sprintf(`{"token":%q}`, p.Token()))
	var got struct{ Key string }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || len(got.Key) != 64 {
		t.Fatalf("the token was not taken: %d %s", w.Code, w.Body)
	}
	if cookies := w.Result().Cookies(); len(cookies) > 0 {
		t.Fatalf("a cookie, which every port of the host gets: %v", cookies)
	}
	v.key = got.Key
	if w := v.do("POST", "/session", fmt.Sprintf(`{"token":%q}`, p.Token())); w.Code != http.StatusUnauthorized {
		t.Fatalf("the token was taken twice: %d", w.Code)
	}
	return v
}

// TestKept: a browser may cache only the static files of the page. Their addresses contain a hash of all static
// files.
func TestKept(t *testing.T) {
	p := New(Options{Daemon: &daemon{}})
	v := &visitor{t: t, h: p.Handler(), host: p.guard.host}
	page := v.do("GET", "/", "")
	files := regexp.MustCompile(`"(/static/[^"]+)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if kept := page.Header().Get("Cache-Control"); kept != "no-store" || len(files) < 10 {
		t.Fatalf("the page has %d files and is kept: %s", len(files), kept)
	}
	for _, f := range files {
		w := v.do("GET", f[1], "")
		if kept := w.Header().Get("Cache-Control"); w.Code != http.StatusOK || !strings.Contains(kept, "immutable") {
			t.Errorf("%s: %d, kept: %s", f[1], w.Code, kept)
		}
	}
	for _, other := range []string{"/static/style.css", files[0][1] + ".none"} {
		if w := v.do("GET", other, ""); w.Code != http.StatusNotFound || strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d", other, w.Code)
		}
	}
}

func TestWithoutSession(t *testing.T) {
	p := New(Options{Daemon: &daemon{}})
	v := &visitor{t: t, h: p.Handler(), host: p.guard.host}
	for path, method := range map[string]string{
		"/session": "GET", "/api/v1/list": "POST", "/file?path=a": "GET", "/image?path=a": "GET",
	} {
		for _, key := range []string{"", "0"} {
			v.key = key
			if w := v.do(method, path, "{}"); w.Code != http.StatusUnauthorized {
				t.Errorf("%s %s with the key %q: %d, want 401", method, path, key, w.Code)
			}
		}
	}
	if w := v.do("POST", "/session", `{"token":""}`); w.Code != http.StatusUnauthorized {
		t.Errorf("an empty token: %d, want 401", w.Code)
	}
	if w := v.do("GET", "/", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<title>amberfs") {
		t.Errorf("the page itself: %d", w.Code)
	}
}

func TestOtherNamesAndSites(t *testing.T) {
	v := enter(t, Options{Daemon: &daemon{answer: "{}"}, Writable: true})
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	from := func(k, val string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, val) } }
	for name, want := range map[string]int{
		v.host + ":4711": 200, v.host + ":99": 200, v.host: 200, "127.0.0.1:4711": 403, "localhost:99": 403, "[::1]:4711": 403, "localhost": 403,
		"x.localhost:4711": 403, "x." + v.host: 403, v.host + ".evil.example:4711": 403, "evil.example": 403, "": 403,
	} {
		if w := v.do("POST", "/api/v1/list", "{}", host(name)); w.Code != want {
			t.Errorf("Host %q: %d, want %d", name, w.Code, want)
		}
	}
	if w := v.do("POST", "/api/v1/restore", "{}", from("Origin", "https://evil.example")); w.Code != 403 {
		t.Errorf("a form of another origin: %d, want 403", w.Code)
	}
	if w := v.do("POST", "/api/v1/list", "{}", from("Sec-Fetch-Site", "cross-site")); w.Code != 403 {
		t.Errorf("POST from another site: %d, want 403", w.Code)
	}
}

// TestEachPageHasItsOrigin: each page has another host name, so that data which an earlier server left in the
// browser does not apply to it.
func TestEachPageHasItsOrigin(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		p := New(Options{})
		u, err := url.Parse(p.URL("4711"))
		if err != nil || u.Port() != "4711" || !strings.HasSuffix(u.Hostname(), ".localhost") || len(u.Hostname()) < 30 || u.Fragment != "token="+p.Token() {
			t.Fatal(u, err)
		}
		if seen[u.Host] {
			t.Fatal("twice: ", u.Host)
		}
		seen[u.Host] = true
	}
}

func TestOnlyLooking(t *testing.T) {
	d := &daemon{answer: "{}"}
	v := enter(t, Options{Daemon: d})
	for _, op := range changeOperations {
		if w := v.do("POST", "/api/v1/"+op, "{}"); w.Code != 403 {
			t.Errorf("%s: %d, want 403", op, w.Code)
		}
	}
	if len(d.asked) != 0 {
		t.Errorf("the daemon was asked: %q", d.asked)
	}
	for _, op := range []string{"open", "umount", "objects", "set-policy", "gc", "nothing"} {
		for _, method := range []string{"GET", "POST"} {
			if w := v.do(method, "/api/v1/"+op, "{}"); w.Code == 200 && w.Header().Get(statusHeader) == "" {
				t.Errorf("%s %s got through", method, op)
			}
		}
	}
	if w := v.do("POST", "/api/v1/list?workspace=f", "{}"); w.Code != 200 || d.asked[0] != "POST /v1/list?workspace=f" {
		t.Errorf("looking: %d, asked %q", w.Code, d.asked)
	}
}

func TestContentsStayText(t *testing.T) {
	show := func(path, content string) listing {
		v := enter(t, Options{Daemon: &daemon{answer: content}})
		w := v.do("GET", "/file?path="+path, "")
		if kind := w.Header().Get("Content-Type"); kind != "application/json" {
			t.Fatalf("%s is served as %s", path, kind)
		}
		var l listing
		must.OK(t, json.Unmarshal(w.Body.Bytes(), &l))
		return l
	}
	text := func(l listing) string {
		var b strings.Builder
		for _, line := range l.Lines {
			b.WriteString(line + "\n")
		}
		return b.String()
	}
	if l := show("a.html", "<script>alert(1)</script>\n"); l.Kind != "text" || text(l) != "<script>alert(1)</script>\n" {
		t.Errorf("a script: %+v", l)
	}
	source := "package a\n\n// c\nfunc f() string { return \"x\" }\n"
	if l := show("a.go", source); l.Total != 4 || text(l) != source {
		t.Errorf("source code: %+v", l)
	}
	if l := show("a", "a\x00b"); l.Kind != "binary" || len(l.Lines) != 0 {
		t.Errorf("a binary file: %+v", l)
	}
	if l := show("a.txt", strings.Repeat("x", 1<<20)); l.Total != 1 || len(text(l)) > 2*maxLineBytes {
		t.Errorf("a line of 1 MB: %d lines, %d bytes", l.Total, len(text(l)))
	}
	if l := show("a.txt", strings.Repeat("x\n", 3*maxAnswerLines)); l.Total != 3*maxAnswerLines || len(l.Lines) != maxAnswerLines {
		t.Errorf("many lines: %d of %d", len(l.Lines), l.Total)
	}
}

func TestImages(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 32)
	for content, want := range map[string]int{png: 200, "<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>": 415, "<html>": 415} {
		v := enter(t, Options{Daemon: &daemon{answer: content}})
		w := v.do("GET", "/image?path=a.png", "")
		if w.Code != want {
			t.Errorf("%q: %d, want %d", content[:5], w.Code, want)
		}
		if want == 200 && (w.Header().Get("Content-Type") != "image/png" || !bytes.Equal(w.Body.Bytes(), []byte(png))) {
			t.Errorf("an image came as %s", w.Header().Get("Content-Type"))
		}
	}
}

// TestSmall limits the lines of JavaScript and CSS, so that a person can read all of them.
func TestSmall(t *testing.T) {
	files, err := staticFiles.ReadDir("static")
	must.OK(t, err)
	lines := 0
	for _, f := range files {
		b, err := staticFiles.ReadFile("static/" + f.Name())
		must.OK(t, err)
		if strings.HasSuffix(f.Name(), ".js") || strings.HasSuffix(f.Name(), ".css") {
			for line := range strings.Lines(string(b)) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
					lines++
				}
			}
		}
	}
	if lines == 0 || lines > 1720 {
		t.Errorf("JavaScript and CSS have %d lines of code, and at most 1,720 are allowed", lines)
	}
}

// failing answers each request with an error of this HTTP status.
type failing int

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(f), Body: io.NopCloser(strings.NewReader(`{"error":"no"}`)), Request: r, Header: http.Header{}}, nil
}

// TestExpectedErrors: for conflicts and deleted snapshots, the browser gets the HTTP status 200, and the status of
// the error in statusHeader. For other errors it gets the status of the error.
func TestExpectedErrors(t *testing.T) {
	for status, quiet := range map[int]bool{404: true, 409: true, 403: false, 500: false} {
		w := enter(t, Options{Daemon: failing(status)}).do("POST", "/api/v1/summaries", "{}")
		said := w.Header().Get(statusHeader)
		if (w.Code == 200) != quiet || (said == strconv.Itoa(status)) != quiet || !strings.Contains(w.Body.String(), "no") {
			t.Errorf("%d: answered with %d, %s %q, %s", status, w.Code, statusHeader, said, w.Body)
		}
	}
}
