package ui_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// take takes n snapshots over the store's socket.
func take(t *testing.T, m *harness.Mount, n int) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(m.Store, "socket"))
	}}}
	defer c.CloseIdleConnections()
	for i := range n {
		resp, err := c.Post("http://amberfs/v1/snapshot", "application/json", strings.NewReader(fmt.Sprintf(`{"name":"s%d","message":"step %d"}`, i, i)))
		must.OK(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		must.OK(t, errors.Join(err, resp.Body.Close()))
	}
}

// TestLarge looks at many files and at long texts.
func TestLarge(t *testing.T) {
	files, length := 10_000, 20_000
	if harness.LongTests() {
		files, length = 100_000, 100_000
	}
	m := harness.New(t)
	const snapshots = 1000
	take(t, m, snapshots)
	text := make([]byte, 0, 50*length)
	for i := range length {
		text = fmt.Appendf(text, "line %d of a text that was not there before\n", i)
	}
	must.OK(t, os.WriteFile(m.Path("a-text"), text, 0o644))
	for i := range files {
		if i%1000 == 0 {
			must.OK(t, os.Mkdir(m.Path(fmt.Sprintf("d%d", i/1000)), 0o755))
		}
		must.OK(t, os.WriteFile(m.Path(fmt.Sprintf("d%d/f%d", i/1000, i)), nil, 0o644))
	}
	m.Amberfs("-C", m.Path(), "snapshot", "large", "--no-wait")
	b := open(t, m)
	b.wait(fmt.Sprintf(`document.querySelector('#snapshots').scrollHeight > %d`, 50*snapshots))
	var requests, listed int
	b.eval(`performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/v1/list')).length`, &requests)
	b.eval(`document.querySelectorAll('#snapshots .row').length`, &listed)
	if requests > 4 || listed > 100 {
		t.Errorf("%d snapshots took %d requests, and %d rows in the page", snapshots, requests, listed)
	}
	b.click("#snapshots [role=option]", "large")
	b.wait(fmt.Sprintf(`document.querySelector('#counts').textContent.includes('%s')`, grouped(min(files+1, 20_000))))
	b.click("#files [role=treeitem]", "a-text")
	b.wait(`document.querySelector('#diffs tr.add')`)
	b.key("1")
	b.wait(`document.querySelector('#view .row-line')?.textContent.includes('line 0')`)
	var rows, lines int
	b.eval(`document.querySelectorAll('#files [role=treeitem]').length`, &rows)
	b.eval(`document.querySelectorAll('#view .row-line').length`, &lines)
	if rows > 100 || lines > 200 {
		t.Errorf("%d rows of files and %d lines are in the page, and few can be seen", rows, lines)
	}
	// The end is reached while the middle is fetched.
	b.eval(`{ const v = document.querySelector('#view'); v.scrollTop = v.scrollHeight / 2; setTimeout(() => { v.scrollTop = v.scrollHeight; }, 50); }`, nil)
	b.wait(fmt.Sprintf(`document.querySelector('#view').innerText.includes('line %d of')`, length-1))
}

func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
