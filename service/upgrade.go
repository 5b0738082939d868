package service

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/internal/descriptors"
)

// A request for an upgrade is sent to one daemon and answered by the next one, on the same connection.
// It is not an operation: only the owner of the store may replace the program, over the socket.
const upgradePath = "/upgrade"

// Upgraded is the result of an upgrade.
type Upgraded struct {
	Version string  `json:"version"`
	PID     int     `json:"pid"`
	Pause   float64 `json:"pause_seconds"`
}

// upgrade starts the next daemon, which answers the request. It returns only if the new daemon does not
// start.
func (srv *Server) upgrade(w http.ResponseWriter, r *http.Request) error {
	exemptCall(r)
	if err := srv.service.Mount.WaitReady(r.Context()); err != nil {
		return err
	}

	return srv.service.Daemon.Upgrade(r.Context(), r.URL.Query().Get("program"), func() (*net.UnixConn, error) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return nil, err
		}
		return c.(*descriptors.Receiver).UnixConn, nil
	})
}

// AnswerUpgrade answers a client that asked the previous daemon for an upgrade, with a result or an
// error, and closes the connection.
func AnswerUpgrade(c net.Conn, result Upgraded, err error) {
	status, v := http.StatusOK, any(result)
	if err != nil {
		e := errs.ErrorOf(err)
		status, v = e.Kind.HTTPStatus(), e
	}

	b, _ := json.Marshal(v) // both types can be encoded
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), len(b), b)
	c.Close()
}

// RequestUpgrade asks the daemon of the store dir for an upgrade to another program, given by its path, and waits
// for the answer of the new daemon.
func RequestUpgrade(ctx context.Context, dir, program string) (result Upgraded, err error) {
	conn, err := Dial(ctx, dir)
	if err != nil {
		return result, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	if _, err = fmt.Fprintf(conn, "POST %s?program=%s HTTP/1.1\r\nHost: amberfs\r\n\r\n", upgradePath, url.QueryEscape(program)); err != nil {
		return result, errDaemonEnded(dir, err)
	}

	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return result, errDaemonEnded(dir, err)
	}
	defer resp.Body.Close()

	if resp.StatusCode == http.StatusOK {
		return result, json.NewDecoder(resp.Body).Decode(&result)
	}

	refused := &errs.Error{}
	if err := json.NewDecoder(resp.Body).Decode(refused); err != nil {
		return result, errDaemonEnded(dir, err)
	}

	if resp.StatusCode == http.StatusNotFound && strings.HasPrefix(refused.Msg, "no such operation") {
		return result, errs.Fail(errs.Failed, "the daemon of %s is of a version that cannot be replaced under its mount", dir).
			WithHint("unmount it with that version, and mount it with this one")
	}

	return result, refused
}
