package page

import (
	"net/http"
	"net/http/httputil"
)

// The operations that the page uses: looking, and with Options.Write changing.
var (
	looks   = []string{"list", "show", "changes", "hunks", "history", "events", "forks", "status"}
	changes = []string{"snapshot", "remove", "rename", "pin", "restore", "revert", "merge", "delete-fork"}
)

// api passes requests on to the daemon. The browser's headers stay here: the
// daemon knows its caller by the socket.
func (p *Page) api() http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: p.o.Daemon,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "amberfs", "amberfs"
			r.Out.Header = http.Header{"Content-Type": r.In.Header["Content-Type"]}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			refuse(w, http.StatusBadGateway, "the daemon does not answer; is the workspace still mounted?")
		},
	}
	mux := http.NewServeMux()
	for _, op := range looks {
		mux.Handle("POST /v1/"+op, proxy)
	}
	for _, op := range changes {
		if p.o.Write {
			mux.Handle("POST /v1/"+op, proxy)
			continue
		}
		mux.HandleFunc("POST /v1/"+op, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusForbidden, "this page only looks; `amberfs ui --write` gives it buttons")
		})
	}
	return http.StripPrefix("/api", mux)
}
