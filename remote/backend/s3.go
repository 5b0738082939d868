package backend

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/amberfs/amberfs/internal/env"
)

// A bucket is a backend in a bucket of an S3-compatible service.
type bucket struct {
	core            *minio.Core
	creds           *credentials.Credentials
	transport       *http.Transport
	url             *url.URL
	credentialsFile string // path of the file with the credentials; "" if the client searches them
	host            string
	name            string
	prefix          string // empty or ending in a slash
}

// An uncachedCredentials reads the credentials from a file for each request, because the file can change.
type uncachedCredentials struct{ credentials.FileAWSCredentials }

func (*uncachedCredentials) IsExpired() bool { return true }

// openS3 returns a bucket. It always sets a region: without one the client would first make a request for
// the region.
func openS3(u *url.URL) (Backend, error) {
	p, err := parseParameters(u, "endpoint", "region", "credentials")
	if err != nil {
		return nil, err
	}
	if u.Host == "" {
		return nil, errors.New("a bucket is named as s3://BUCKET/PREFIX")
	}

	endpoint, err := url.Parse(cmp.Or(p["endpoint"], env.Get("AWS_ENDPOINT_URL_S3"), env.Get("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com"))
	if err != nil || endpoint.Host == "" || endpoint.User != nil || strings.Trim(endpoint.Path, "/") != "" {
		return nil, errors.New("the endpoint of an S3 service is given as https://HOST or http://HOST:PORT")
	}

	transport, err := newTransport()
	if err != nil {
		return nil, err
	}

	file, err := credentialsFile(p)
	if err != nil {
		return nil, err
	}

	// Without a file, the credentials are searched in the environment, the user's files and the role of
	// the machine.
	creds := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.EnvMinio{},
		&credentials.IAM{Client: &http.Client{Transport: transport}},
	})
	if file != "" {
		creds = credentials.New(&uncachedCredentials{credentials.FileAWSCredentials{Filename: file, Profile: "default"}})
	}

	core, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:      creds,
		Secure:     endpoint.Scheme == "https",
		Transport:  transport,
		Region:     cmp.Or(p["region"], env.Get("AWS_REGION"), env.Get("AWS_DEFAULT_REGION"), "us-east-1"),
		MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("open remote: %w", err)
	}

	b := &bucket{core: core, creds: creds, transport: transport, url: u, credentialsFile: file, host: endpoint.Host, name: u.Host}
	if prefix := strings.Trim(path.Clean("/"+u.Path), "/"); prefix != "" {
		b.prefix = prefix + "/"
	}

	return b, nil
}

func (b *bucket) URL() string      { return b.url.String() }
func (b *bucket) IsRegistry() bool { return false }

func (b *bucket) CloseIdleConnections() { b.transport.CloseIdleConnections() }

// wrapError converts an error of the client to an error of this package, with only the code of an answer.
func (b *bucket) wrapError(ctx context.Context, operation, key string, err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return fmt.Errorf("%s %s: %w", operation, key, errorOfTransport(ctx, b.host, err))
	}

	kind := errorOfStatus(answer.StatusCode)
	switch {
	case answer.Code == "NoSuchBucket":
		return fmt.Errorf("%w: %s at %s", ErrNoBucket, b.name, b.host)
	case isCredentialsCode(answer.Code): // some services send these codes with status 400 or 404
		kind = ErrDenied
	case kind == nil:
		kind = ErrAway
	}

	switch kind {
	case ErrNotFound, ErrChanged:
		return fmt.Errorf("%s %s: %w", operation, key, kind)
	case ErrDenied:
		return fmt.Errorf("%s %s: %s: %w (%s): %s", operation, key, b.host, kind, answer.Code, b.explainDenied(answer.Code))
	}

	return fmt.Errorf("%s %s: %s: %w (%s)", operation, key, b.host, kind, answer.Code)
}

// isCredentialsCode reports whether an error code says that the credentials are not valid.
func isCredentialsCode(code string) bool {
	switch code {
	case "ExpiredToken", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return true
	}
	return strings.HasSuffix(code, "UserNotFound")
}

// explainDenied returns a text for the user: why the service refused the credentials, and what to do.
func (b *bucket) explainDenied(code string) string {
	source := "the machine's role"
	if env.Get("AWS_ACCESS_KEY_ID") != "" || env.Get("AWS_ACCESS_KEY") != "" {
		source = "AWS_ACCESS_KEY_ID"
	} else if v, err := (&credentials.FileAWSCredentials{}).Retrieve(); err == nil && v.AccessKeyID != "" {
		source = "~/.aws/credentials"
	}

	place := "in the environment of `amberfs mount`, and mount again"
	if b.credentialsFile != "" {
		source, place = b.credentialsFile, "in it"
	}

	v, err := b.creds.GetWithContext(nil)
	switch {
	case err != nil || v.AccessKeyID == "":
		return "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY " + place
	case code == "ExpiredToken" || code == "TokenRefreshRequired":
		return "the session token of the credentials from " + source + " has expired; set new ones " + place
	case isCredentialsCode(code):
		return "the service does not accept the credentials from " + source + "; set the right ones " + place
	}

	return "the credentials from " + source + " do not allow it; set others " + place + ", or have this allowed"
}

func (b *bucket) Put(ctx context.Context, key string, data []byte, o PutOptions) error {
	opts := minio.PutObjectOptions{DisableMultipart: true, DisableContentSha256: true, ContentType: "application/octet-stream"}
	if o.IfAbsent {
		opts.SetMatchETagExcept("*")
	}
	_, err := b.core.PutObject(ctx, b.name, b.prefix+key, bytes.NewReader(data), int64(len(data)), "", ObjectOf(data).Name, opts)
	return b.wrapError(ctx, "write", key, err)
}

func (b *bucket) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	if n <= 0 {
		return nil, nil
	}
	opts := minio.GetObjectOptions{}
	if err := opts.SetRange(off, off+n-1); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}

	data, err := readWhole(ctx, func() (io.ReadCloser, int64, error) {
		body, info, _, err := b.core.GetObject(ctx, b.name, b.prefix+key, opts)
		return body, info.Size, err
	}, n)
	if minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return nil, nil // the range begins behind the end of the value
	}

	return data, b.wrapError(ctx, "read", key, err)
}

func (b *bucket) Stat(ctx context.Context, key string) (Info, error) {
	o, err := b.core.StatObject(ctx, b.name, b.prefix+key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, b.wrapError(ctx, "look for", key, err)
	}
	return Info{Key: key, Size: o.Size, Modified: o.LastModified}, nil
}

func (b *bucket) List(ctx context.Context, prefix string, fn func(Info) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	for o := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return b.wrapError(ctx, "list", prefix, o.Err)
		}
		key := strings.TrimPrefix(o.Key, b.prefix)
		if !isKey(key) {
			continue // a file of another program
		}
		if err := fn(Info{Key: key, Size: o.Size, Modified: o.LastModified, MD5: strings.Trim(o.ETag, `"`)}); err != nil {
			return err
		}
	}

	return ctx.Err()
}

// DeleteAll removes up to 1,000 keys with each request.
func (b *bucket) DeleteAll(ctx context.Context, keys []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the requests, and the goroutine below, after an error

	objects := make(chan minio.ObjectInfo)
	go func() {
		defer close(objects)
		for _, key := range keys {
			select {
			case objects <- minio.ObjectInfo{Key: b.prefix + key}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for failed := range b.core.RemoveObjects(ctx, b.name, objects, minio.RemoveObjectsOptions{}) {
		return b.wrapError(ctx, "delete", strings.TrimPrefix(failed.ObjectName, b.prefix), failed.Err)
	}

	return ctx.Err()
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	err := b.wrapError(ctx, "delete", key, b.core.RemoveObject(ctx, b.name, b.prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// FormerVersions lists all versions of each key whose newest version is a delete marker. The delete markers are last.
// If the service does not support the request, FormerVersions returns none, because such a service keeps no versions.
func (b *bucket) FormerVersions(ctx context.Context, prefix string) (former []Version, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var all, marks []Version
	removed := make(map[string]bool)
	for o := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true, WithVersions: true}) {
		if err := b.wrapError(ctx, "list the versions of", prefix, o.Err); errors.Is(err, ErrDenied) || errors.Is(err, ErrAway) {
			return nil, err
		} else if err != nil {
			break
		}

		v := Version{o.Key, o.VersionID}
		if o.IsLatest && o.IsDeleteMarker {
			removed[o.Key], marks = true, append(marks, v)
		} else {
			all = append(all, v)
		}
	}

	all = slices.DeleteFunc(all, func(v Version) bool { return !removed[v.Key] })

	return append(all, marks...), ctx.Err()
}

// DeleteVersion implements versioner.
func (b *bucket) DeleteVersion(ctx context.Context, v Version) error {
	err := b.core.RemoveObject(ctx, b.name, v.Key, minio.RemoveObjectOptions{VersionID: v.ID})
	return b.wrapError(ctx, "delete a version of", v.Key, err)
}
