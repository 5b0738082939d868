package backend

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

const (
	artifactType    = "application/vnd.amberfs.snapshot.v1+json"
	objectMediaType = "application/vnd.amberfs.object.v1"
	refAnnotation   = "io.amberfs.ref" // annotation of a manifest: the value of the ref, in base64
	formatTag       = "amberfs.format"
)

// A registry is a backend in a repository of an OCI registry. An object is a blob, and a ref is a tag. The manifest
// of the tag has the objects as layers, so that the registry keeps them. The value of the ref is an annotation of the
// manifest, so that one request reads it.
type registry struct {
	repo      *remote.Repository
	client    *auth.Client
	transport *http.Transport
	url       *url.URL
}

func openOCI(u *url.URL) (Backend, error) {
	p, err := parseParameters(u, "credentials")
	if err != nil {
		return nil, err
	}

	file, err := credentialsFile(p)
	if err != nil {
		return nil, err
	}
	if u.Path != strings.ToLower(u.Path) {
		return nil, fmt.Errorf("the name of a repository has no capitals: oci://%s%s", u.Host, strings.ToLower(u.Path))
	}

	repo, err := remote.NewRepository(u.Host + u.Path)
	if err != nil || repo.Reference.Reference != "" {
		return nil, errors.New("a repository is named as oci://HOST/REPOSITORY, without a tag")
	}

	client, transport, err := setClient(repo, file)
	if err != nil {
		return nil, err
	}

	return &registry{repo: repo, client: client, transport: transport, url: u}, nil
}

func (r *registry) URL() string      { return r.url.String() }
func (r *registry) IsRegistry() bool { return true }

func (r *registry) CloseIdleConnections() { r.transport.CloseIdleConnections() }

// wrapError converts an error of the client to an error of this package, with only the status and the
// error codes of an answer.
func (r *registry) wrapError(ctx context.Context, operation, key string, err error) error {
	return WrapRegistryError(ctx, r.repo, operation+" "+key, err)
}

// WrapRegistryError converts an error of a Repository's client to an error of this package, with only the status and
// the error codes of an answer. operation is the text in the error for what was done, such as "read KEY".
func WrapRegistryError(ctx context.Context, repo *remote.Repository, operation string, err error) error {
	host := repo.Reference.Host()
	var answer *errcode.ErrorResponse
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errdef.ErrNotFound):
		return fmt.Errorf("%s: %w", operation, ErrNotFound)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%s: %s: %w: no credentials were found; log in with `docker login %s`", operation, host, ErrDenied, host)
	case errors.As(err, &answer):
		var codes []string
		for _, e := range answer.Errors {
			codes = append(codes, e.Code)
		}

		kind := errorOfStatus(answer.StatusCode)
		if kind == nil {
			kind = ErrAway
		}
		if kind == ErrDenied {
			codes = append(codes, "log in with `docker login "+host+"`, as the user who mounts")
		}

		return fmt.Errorf("%s: %s: %w (%s)", operation, host, kind, strings.Join(codes, ", "))
	}

	return fmt.Errorf("%s: %w", operation, errorOfTransport(ctx, host, err))
}

// splitKey returns the blob or the tag in which a registry stores the value of a key.
func splitKey(key string) (blob digest.Digest, tag string, err error) {
	if name, ok := strings.CutPrefix(key, "obj/"); ok {
		return digest.NewDigestFromEncoded(digest.SHA256, name), "", nil
	}
	if key == "format" {
		return "", formatTag, nil
	}
	if name, ok := strings.CutPrefix(key, "ref/"); ok && name != formatTag {
		return "", name, nil
	}

	return "", "", fmt.Errorf("%s in a registry: %w", key, ErrUnsupported)
}

func blobDescriptor(o Object) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: objectMediaType, Digest: digest.NewDigestFromEncoded(digest.SHA256, o.Name), Size: o.Size}
}

func (r *registry) Put(ctx context.Context, key string, data []byte, o PutOptions) error {
	blob, tag, err := splitKey(key)
	if err != nil {
		return err
	}

	if tag == "" {
		d := ocispec.Descriptor{MediaType: objectMediaType, Digest: blob, Size: int64(len(data))}
		return r.wrapError(ctx, "write", key, r.repo.Blobs().Push(ctx, d, bytes.NewReader(data)))
	}

	if o.IfAbsent { // not atomic: another program may write the tag between this request and the next one
		if _, err := r.repo.Resolve(ctx, tag); err == nil {
			return fmt.Errorf("write %s: %w", key, ErrChanged)
		} else if !errors.Is(err, errdef.ErrNotFound) {
			return r.wrapError(ctx, "look for", key, err)
		}
	}

	return r.wrapError(ctx, "write", key, r.writeTag(ctx, tag, data, o.RefObjects))
}

// writeTag pushes a manifest with a value, and with objects as its layers. The manifest has the empty configuration,
// because registries refuse a manifest without one.
func (r *registry) writeTag(ctx context.Context, tag string, value []byte, objects []Object) error {
	empty := ocispec.DescriptorEmptyJSON
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: artifactType,
		Config: empty, Annotations: map[string]string{
			refAnnotation:             base64.StdEncoding.EncodeToString(value),
			ocispec.AnnotationCreated: time.Now().UTC().Format(time.RFC3339),
		},
	}
	for _, k := range objects {
		m.Layers = append(m.Layers, blobDescriptor(k))
	}
	if len(m.Layers) == 0 {
		m.Layers = []ocispec.Descriptor{empty}
	}

	has, err := r.repo.Exists(ctx, empty)
	if err == nil && !has {
		err = r.repo.Push(ctx, empty, bytes.NewReader(empty.Data))
	}
	if err != nil {
		return err
	}

	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}

	return r.repo.PushReference(ctx, content.NewDescriptorFromBytes(m.MediaType, raw), bytes.NewReader(raw), tag)
}

// readTag returns the value in the manifest of a tag.
func (r *registry) readTag(ctx context.Context, key, tag string) ([]byte, error) {
	raw, err := readWhole(ctx, func() (io.ReadCloser, int64, error) {
		d, body, err := r.repo.FetchReference(ctx, tag)
		return body, d.Size, err
	}, MaxValueSize)
	if err != nil {
		return nil, r.wrapError(ctx, "read", key, err)
	}

	data, err := refInManifest(raw)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}

	return data, nil
}

// refInManifest returns the value in a manifest. It returns ErrNotFound for a manifest of another program.
func refInManifest(raw []byte) ([]byte, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil || m.ArtifactType != artifactType {
		return nil, fmt.Errorf("%w: the tag does not name a snapshot", ErrNotFound)
	}

	data, err := base64.StdEncoding.DecodeString(m.Annotations[refAnnotation])
	if err != nil {
		return nil, fmt.Errorf("the manifest has no snapshot: %w", err)
	}

	return data, nil
}

// GetRange requests the range itself: Fetch of the library would request the whole blob, and after a seek
// the rest of the blob again.
func (r *registry) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	blob, tag, err := splitKey(key)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, nil
	}

	if tag != "" {
		data, err := r.readTag(ctx, key, tag)
		size := int64(len(data))
		return data[min(off, size):min(off+n, size)], err
	}

	ref := r.repo.Reference
	scheme := "https"
	if r.repo.PlainHTTP {
		scheme = "http"
	}

	u := url.URL{Scheme: scheme, Host: ref.Host(), Path: "/v2/" + ref.Repository + "/blobs/" + blob.String()}
	req, err := http.NewRequestWithContext(auth.AppendRepositoryScope(ctx, ref, auth.ActionPull), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}

	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	data, err := readWhole(ctx, func() (io.ReadCloser, int64, error) {
		resp, err := r.client.Do(req)
		if err != nil {
			return nil, 0, err
		}
		return rangeBody(resp, off, n)
	}, n)
	if errors.Is(err, errBeyondEnd) {
		return nil, nil
	}

	return data, r.wrapError(ctx, "read", key, err)
}

// errBeyondEnd: the range begins after the end of the object.
var errBeyondEnd = errors.New("range behind the end")

// rangeBody returns the body of an answer, reduced to the requested range if the answer has the whole object.
// size is -1 if it is unknown.
func rangeBody(resp *http.Response, off, n int64) (body io.ReadCloser, size int64, err error) {
	switch resp.StatusCode {
	case http.StatusPartialContent:
		return resp.Body, resp.ContentLength, nil
	case http.StatusOK:
		if _, err = io.CopyN(io.Discard, resp.Body, off); err == nil {
			return struct {
				io.Reader
				io.Closer
			}{io.LimitReader(resp.Body, n), resp.Body}, -1, nil
		}
		err = errBeyondEnd

	case http.StatusRequestedRangeNotSatisfiable:
		err = errBeyondEnd
	default:
		err = &errcode.ErrorResponse{StatusCode: resp.StatusCode}
	}
	return nil, 0, errors.Join(err, resp.Body.Close())
}

func (r *registry) Stat(ctx context.Context, key string) (Info, error) {
	blob, tag, err := splitKey(key)
	if err != nil {
		return Info{}, err
	}

	var d ocispec.Descriptor
	if tag == "" {
		d, err = r.repo.Blobs().Resolve(ctx, blob.String())
	} else {
		d, err = r.repo.Resolve(ctx, tag)
	}

	return Info{Key: key, Size: d.Size}, r.wrapError(ctx, "look for", key, err)
}

// List calls fn for the tags, without sizes: each size would take a request.
func (r *registry) List(ctx context.Context, prefix string, fn func(Info) error) error {
	if prefix != "ref/" {
		return fmt.Errorf("list %s in a registry: %w", prefix, ErrUnsupported)
	}
	var all []string
	err := r.repo.Tags(ctx, "", func(tags []string) error {
		all = append(all, tags...)
		return nil
	})
	// A repository that does not exist has no tags: the first push creates it.
	if err = r.wrapError(ctx, "list", prefix, err); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}

	for _, t := range all {
		if key := "ref/" + t; t != formatTag && isKey(key) {
			if err := fn(Info{Key: key}); err != nil {
				return err
			}
		}
	}

	return nil
}

func (r *registry) Delete(ctx context.Context, key string) error {
	_, tag, err := splitKey(key)
	if err != nil {
		return err
	}
	if tag == "" {
		return fmt.Errorf("delete %s: a registry frees its blobs itself: %w", key, ErrUnsupported)
	}

	err = r.deleteTag(ctx, tag)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil
	}

	return r.wrapError(ctx, "delete", key, err)
}

func (r *registry) deleteTag(ctx context.Context, tag string) error {
	d, err := r.repo.Resolve(ctx, tag)
	if err != nil {
		return err
	}
	return r.repo.Manifests().Delete(ctx, d)
}
