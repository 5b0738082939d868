package page

import (
	"crypto/rand"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
)

//go:embed static
var static embed.FS

// Options say what the page shows.
type Options struct {
	// Daemon reaches the HTTP API on the store's socket, whatever the host in a
	// URL says.
	Daemon http.RoundTripper
	// Mountpoint is shown to the user, and Workspace first: the forks that lead
	// to it with / between them, empty for main.
	Mountpoint, Workspace string
	// Write gives the page its buttons.
	Write bool
}

// A Page answers a browser.
type Page struct {
	o     Options
	guard guard
}

// New makes a page with a session of its own.
func New(o Options) *Page {
	return &Page{o: o, guard: guard{token: secret(), key: secret()}}
}

// Token is what the address of the page carries behind #token=.
func (p *Page) Token() string { return p.guard.token }

// Handler answers all requests.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, static, "static/index.html")
	})
	mux.Handle("GET /static/", http.FileServerFS(static))
	mux.HandleFunc("POST /session", p.guard.enter)
	mux.HandleFunc("GET /session", p.guard.member(p.session))
	mux.HandleFunc("GET /file", p.guard.member(p.file))
	mux.HandleFunc("GET /image", p.guard.member(p.image))
	mux.HandleFunc("/api/", p.guard.member(p.api().ServeHTTP))
	return p.guard.protect(mux)
}

func (p *Page) session(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"mountpoint": p.o.Mountpoint, "workspace": p.o.Workspace, "write": p.o.Write})
}

// secret is 256 random bits.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// answer sends JSON. Whether the browser is still there is its affair.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, sentence string) {
	answer(w, status, map[string]string{"error": sentence})
}
