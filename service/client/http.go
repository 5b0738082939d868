package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

// overHTTP asks over the socket.
func (c *Client) overHTTP(ctx context.Context, o *service.Op, args any, x Exchange, result any) error {
	req, err := c.request(ctx, o, args, x)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var known *fail.Error
		if errors.As(err, &known) {
			return known
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return c.broken(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp.Body, result)
	}
	switch resp.Header.Get("Content-Type") {
	case "application/json":
		return c.json(resp.Body, result)
	case service.Lines:
		return c.lines(resp.Body, x, result)
	case service.Events:
		return c.events(resp.Body, x)
	}
	return c.stream(resp, x, result)
}

func (c *Client) request(ctx context.Context, o *service.Op, args any, x Exchange) (*http.Request, error) {
	query, in := url.Values{}, x.In
	if o.Input != "" {
		query = o.Query(args)
	} else {
		body, err := json.Marshal(args)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(body)
	}
	if c.target.Workspace != "" {
		query.Set("workspace", c.target.Workspace)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://amberfs/v1/"+o.Name+"?"+query.Encode(), in)
	if err != nil {
		return nil, err
	}
	req.Header.Set(service.CommandHeader, url.QueryEscape(c.target.Command))
	if x.Progress != nil && o.Output == "" && o.Input == "" {
		req.Header.Set("Accept", service.Lines)
	}
	return req, nil
}

func (c *Client) refused(r io.Reader, result any) error {
	var f refusal
	if err := json.NewDecoder(r).Decode(&f); err != nil {
		return c.broken(err)
	}
	return f.err(result)
}

func (c *Client) json(r io.Reader, result any) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return c.broken(err)
	}
	return read(raw, result)
}

// lines reads an answer that tells how far it is.
func (c *Client) lines(r io.Reader, x Exchange, result any) error {
	d := json.NewDecoder(r)
	for {
		var l struct {
			Progress *service.Progress
			Error    *refusal
			Result   json.RawMessage
		}
		switch err := d.Decode(&l); {
		case err != nil:
			return c.broken(err)
		case l.Progress != nil:
			x.Progress(*l.Progress)
		case l.Error != nil:
			return l.Error.err(result)
		default:
			return read(l.Result, result)
		}
	}
}

// events reads server-sent events. The answer ends when there are no more.
func (c *Client) events(r io.Reader, x Exchange) error {
	in := bufio.NewReaderSize(r, bufferSize)
	failed := false
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return c.broken(err)
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && failed {
			return c.refused(bytes.NewReader(data), nil)
		} else if ok {
			if err := x.Item(bytes.TrimSpace(data)); err != nil {
				return err
			}
		}
		failed = bytes.HasPrefix(line, []byte("event: error"))
	}
}

// stream reads text or bytes, and the trailer that follows.
func (c *Client) stream(resp *http.Response, x Exchange, result any) error {
	out := &output{w: x.Out}
	if _, err := io.CopyBuffer(out, resp.Body, make([]byte, bufferSize)); err != nil {
		if out.err != nil {
			return out.err
		}
		return c.broken(err)
	}
	if text := resp.Trailer.Get(service.ErrorTrailer); text != "" {
		return c.refused(bytes.NewReader([]byte(text)), result)
	}
	return read(json.RawMessage(resp.Trailer.Get(service.ResultTrailer)), result)
}

// output remembers an error of writing, which is none of the daemon's.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}
