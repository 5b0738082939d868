package page

import (
	"net/http"
	"net/http/httputil"
)

// What of the API the page uses: looking, and with Options.Write changing.
var (
	looks = []string{
		"GET /v1/snapshots", "GET /v1/snapshots/{name}", "GET /v1/changes", "GET /v1/hunks", "GET /v1/history",
		"GET /v1/events", "GET /v1/forks", "GET /v1/status",
	}
	changes = []string{
		"POST /v1/snapshots", "DELETE /v1/snapshots", "POST /v1/snapshots/{name}/rename", "POST /v1/pin", "POST /v1/restore",
		"POST /v1/revert", "POST /v1/forks/{name}/promote", "DELETE /v1/forks/{name}",
	}
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
	for _, route := range looks {
		mux.Handle(route, proxy)
	}
	for _, route := range changes {
		if p.o.Write {
			mux.Handle(route, proxy)
			continue
		}
		mux.HandleFunc(route, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusForbidden, "this page only looks; `amberfs ui --write` gives it buttons")
		})
	}
	return http.StripPrefix("/api", mux)
}
