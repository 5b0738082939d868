package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/errs"
)

//go:embed static
var staticFiles embed.FS

//go:embed static/index.html
var indexHTML string

// staticVersion is a hash of the static files. It is a part of their addresses, so that a browser may cache them
// forever.
var staticVersion = sync.OnceValue(func() string {
	sum := sha256.New()
	files, _ := staticFiles.ReadDir("static") // reading embedded files does not fail
	for _, f := range files {
		b, _ := staticFiles.ReadFile("static/" + f.Name())
		fmt.Fprintf(sum, "%s %d %s", f.Name(), len(b), b)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
})

type Options struct {
	// Daemon sends requests to the HTTP API on the store's socket.
	Daemon http.RoundTripper
	// Mountpoint is the mount point. Workspace is the workspace that the page shows first: the names of the forks on
	// the way from main to it, separated by /, or "" for main.
	Mountpoint, Workspace string
	// Writable allows changes: the page has buttons.
	Writable bool
	// Dir is the directory that the workspace was filled from, or "".
	Dir          string
	ForksAreRuns bool // the forks are runs of Dir
	// Apply writes changes of a workspace to Dir. args is the JSON of the browser's request. Apply is nil
	// if Dir is "".
	Apply func(ctx context.Context, workspace string, args []byte) (any, error)
	// ListRuns lists the runs of the user. It may be nil.
	ListRuns func(ctx context.Context) (any, error)
}

type Page struct {
	options Options
	guard   guard
}

func New(o Options) *Page {
	// A random host name gives the page an origin of its own: data that an earlier server left in the
	// browser, such as a service worker, does not apply to it.
	host := strings.ToLower(rand.Text()) + ".localhost"
	return &Page{options: o, guard: guard{host: host, token: newSecret(), key: newSecret()}}
}

// URL returns the address of the page on a port, with the token.
func (p *Page) URL(port string) string {
	return fmt.Sprintf("http://%s:%s/#token=%s", p.guard.host, port, p.guard.token)
}

// Token returns the token in the address of the page, the text after "#token=".
func (p *Page) Token() string { return p.guard.token }

func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	files := "/static/" + staticVersion() + "/"
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, strings.ReplaceAll(indexHTML, "/static/", files))
	})
	mux.HandleFunc("GET "+files+"{name}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=31536000, immutable")
		http.ServeFileFS(w, r, staticFiles, "static/"+r.PathValue("name"))
	})
	mux.HandleFunc("POST /session", p.guard.exchangeToken)
	mux.HandleFunc("GET /session", p.guard.requireKey(p.serveSession))
	mux.HandleFunc("GET /file", p.guard.requireKey(p.serveFile))
	mux.HandleFunc("GET /image", p.guard.requireKey(p.serveImage))
	mux.HandleFunc("POST /apply", p.guard.requireKey(withStatusHeader(p.serveApply)))
	mux.HandleFunc("GET /runs", p.guard.requireKey(func(w http.ResponseWriter, r *http.Request) {
		if p.options.ListRuns == nil {
			sendJSON(w, http.StatusOK, []any{})
			return
		}

		all, err := p.options.ListRuns(r.Context())
		sendResult(w, all, err)
	}))

	mux.HandleFunc("/api/", p.guard.requireKey(withStatusHeader(p.apiHandler().ServeHTTP)))

	return p.guard.protectFromOthers(mux)
}

// statusHeader is a header with the status of an answer. withStatusHeader uses it instead of the HTTP status for errors
// that the page expects: conflicts and deleted snapshots. A browser would log these statuses as errors of the page.
const statusHeader = "Amberfs-Status"

// withStatusHeader returns a handler that calls next. If next answers with the status 404 or 409, the handler moves
// that status to statusHeader.
func withStatusHeader(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { next(statusHeaderWriter{w}, r) }
}

type statusHeaderWriter struct{ http.ResponseWriter }

func (q statusHeaderWriter) Unwrap() http.ResponseWriter { return q.ResponseWriter }

func (q statusHeaderWriter) WriteHeader(status int) {
	if status == http.StatusNotFound || status == http.StatusConflict {
		q.Header().Set(statusHeader, strconv.Itoa(status))
		status = http.StatusOK
	}
	q.ResponseWriter.WriteHeader(status)
}

func (p *Page) serveSession(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, http.StatusOK, map[string]any{"mountpoint": p.options.Mountpoint, "workspace": p.options.Workspace, "write": p.options.Writable, "dir": p.options.Dir, "runs": p.options.ForksAreRuns})
}

// maxApplyBytes is the maximum size in bytes of the choices of an apply.
const maxApplyBytes = 8 << 20

func (p *Page) serveApply(w http.ResponseWriter, r *http.Request) {
	switch args, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxApplyBytes)); {
	case !p.options.Writable:
		sendError(w, http.StatusForbidden, readOnlyMessage)
	case p.options.Apply == nil:
		sendError(w, http.StatusNotFound, "the workspace was not filled from a directory")
	case err != nil:
		sendError(w, http.StatusBadRequest, "the request cannot be read")
	default:
		done, err := p.options.Apply(r.Context(), r.URL.Query().Get("workspace"), args)
		sendResult(w, done, err)
	}
}

const readOnlyMessage = "this page cannot change anything; start it with `amberfs ui --write`"

// sendResult sends the result or the error of a function as JSON.
func sendResult(w http.ResponseWriter, v any, err error) {
	if err == nil {
		sendJSON(w, http.StatusOK, v)
		return
	}
	e := errs.ErrorOf(err)
	sendJSON(w, e.Kind.HTTPStatus(), e)
}

func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails
	return hex.EncodeToString(b[:])
}

// sendJSON sends v as JSON. It ignores errors: the browser may have closed the connection.
func sendJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func sendError(w http.ResponseWriter, status int, sentence string) {
	sendJSON(w, status, map[string]string{"error": sentence})
}

// A guard decides who may use the page.
type guard struct {
	host      string      // the only name under which the page is served
	token     string      // the token in the address, which is accepted once
	tokenUsed atomic.Bool // the token was used
	key       string      // the key of the session
}

// sessionHeader is the header with the key in every request. The key is not in a cookie, because a browser would send
// a cookie to every port of the host, also to a server of another user.
const sessionHeader = "Amberfs-Session"

// contentPolicy is the content security policy: the page loads only files of this server.
const contentPolicy = "default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// protectFromOthers returns a handler that refuses requests with another Host or from another site. It passes all other
// requests on to next.
func (g *guard) protectFromOthers(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")

		if g.isPageHost(r.Host) {
			next.ServeHTTP(w, r)
		} else {
			sendError(w, http.StatusForbidden, "this page is not served under that name; open the address that `amberfs ui` printed")
		}
	})
}

// isPageHost reports whether a Host header has the name of the page. The port may differ, because ssh may forward
// another port.
func (g *guard) isPageHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == g.host
}

// exchangeToken answers a request that has the token. The answer contains the key. A second request with the token is
// refused.
func (g *guard) exchangeToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Token string `json:"token"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&in)
	if err != nil || !equalSecrets(in.Token, g.token) || !g.tokenUsed.CompareAndSwap(false, true) {
		sendError(w, http.StatusUnauthorized, "this address was used already, or is not the one that was printed; run `amberfs ui` again")
		return
	}

	sendJSON(w, http.StatusOK, map[string]string{"key": g.key})
}

// requireKey returns a handler that passes requests with the key on to next, and refuses all others.
func (g *guard) requireKey(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !equalSecrets(r.Header.Get(sessionHeader), g.key) {
			sendError(w, http.StatusUnauthorized, "open the address that `amberfs ui` printed")
			return
		}

		next(w, r)
	}
}

func equalSecrets(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// The operations that the page uses: reads, and changes, which need Options.Writable.
var (
	readOperations   = []string{"list", "show", "summaries", "conflict", "changes", "hunks", "history", "blame", "actors", "events", "forks", "status", "policy"}
	changeOperations = []string{"snapshot", "remove", "rename", "pin", "restore", "restore-hunk", "revert", "undo-by", "fork", "rename-fork", "merge", "delete-fork", "forget", "handoff", "handoff-back"}
)

// maxRequestBytes is the maximum size of a request in bytes, as in the daemon.
const maxRequestBytes = 16 << 20

// apiHandler returns a handler that passes requests on to the daemon. It does not pass on the browser's headers: the
// daemon needs only the socket to identify the caller.
func (p *Page) apiHandler() http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: p.options.Daemon,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "amberfs", "amberfs"
			r.Out.Header = http.Header{"Content-Type": r.In.Header["Content-Type"]}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			sendError(w, http.StatusBadGateway, "the daemon does not answer; is the workspace still mounted?")
		},
		ErrorLog: log.New(io.Discard, "", 0), // otherwise each reload of the page would log a closed stream of events
	}

	// pass reads the whole request before it sends it. Otherwise the daemon could answer before it has read
	// the request, and the server would close the body while the transport still reads it.
	pass := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
		if err != nil {
			sendError(w, http.StatusRequestEntityTooLarge, "the request is larger than 16 MiB, or broke off")
			return
		}

		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}

	mux := http.NewServeMux()
	for _, op := range readOperations {
		mux.HandleFunc("POST /v1/"+op, pass)
	}

	for _, op := range changeOperations {
		if p.options.Writable {
			mux.HandleFunc("POST /v1/"+op, pass)
			continue
		}

		mux.HandleFunc("POST /v1/"+op, func(w http.ResponseWriter, _ *http.Request) {
			sendError(w, http.StatusForbidden, readOnlyMessage)
		})
	}

	return http.StripPrefix("/api", mux)
}
