package backend

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"
	oci "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/amberfs/amberfs/internal/env"
)

const (
	artifactType = "application/vnd.amberfs.snapshot.v1+json"
	objectType   = "application/vnd.amberfs.object.v1"
	refNote      = "io.amberfs.ref" // annotation of a manifest: the value of the key, in base64
	formatTag    = "amberfs.format"
)

// registry is a repository of an OCI registry. An object is a blob, a ref is a
// tag: its manifest has the objects as layers, so that the registry's own
// collection keeps them, and the ref's value as an annotation, so that one request
// reads it.
type registry struct {
	repo      *remote.Repository
	client    *auth.Client
	transport *http.Transport
	url       *url.URL
}

func openOCI(u *url.URL) (Backend, error) {
	p, err := parameters(u, "credentials")
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
	client, transport, err := connect(repo, file)
	if err != nil {
		return nil, err
	}
	return &registry{repo: repo, client: client, transport: transport, url: u}, nil
}

// Repository opens a repository of a registry, named as HOST/REPOSITORY.
func Repository(name string) (*remote.Repository, error) {
	repo, err := remote.NewRepository(name)
	if err == nil {
		_, _, err = connect(repo, "")
	}
	return repo, err
}

func connect(repo *remote.Repository, file string) (*auth.Client, *http.Transport, error) {
	transport, err := newTransport()
	if err != nil {
		return nil, nil, err
	}
	credential, err := credentialsOf(repo.Reference)
	if file != "" {
		credential, err = credentialsIn(file), nil
	}
	if err != nil {
		return nil, nil, err
	}
	client := &auth.Client{
		Client: &http.Client{Transport: retry.NewTransport(transport), CheckRedirect: redirects(repo.Reference.Host())},
		Header: http.Header{"User-Agent": {"amberfs"}},
		Cache:  auth.NewCache(), Credential: credential,
	}
	repo.Client = client
	repo.PlainHTTP = isLoopback(repo.Reference.Host())
	return client, transport, nil
}

// credentialsOf looks where podman keeps credentials, also those of a part of a registry
// only, and then where docker does.
func credentialsOf(ref oci.Reference) (auth.CredentialFunc, error) {
	docker, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, fmt.Errorf("the credentials of docker: %w", err)
	}
	dir := fmt.Sprintf("/run/containers/%d", os.Getuid())
	if run := env.Get("XDG_RUNTIME_DIR"); run != "" {
		dir = filepath.Join(run, "containers")
	}
	file := cmp.Or(env.Get("REGISTRY_AUTH_FILE"), filepath.Join(dir, "auth.json"))
	podman := credentials.NewMemoryStore()
	if _, err := os.Stat(file); err == nil { // other users may not look there
		if podman, err = credentials.NewStore(file, credentials.StoreOptions{}); err != nil {
			return nil, fmt.Errorf("the credentials of podman: %w", err)
		}
	}
	return func(ctx context.Context, host string) (auth.Credential, error) {
		for name := path.Join(ref.Registry, ref.Repository); host == ref.Host() && name != "."; name = path.Dir(name) {
			if c, err := podman.Get(ctx, name); err != nil || c != auth.EmptyCredential {
				return c, err
			}
		}
		return credentials.Credential(docker)(ctx, host)
	}, nil
}

// credentialsIn reads a file each time, because others can be written into it.
func credentialsIn(file string) auth.CredentialFunc {
	return func(ctx context.Context, host string) (auth.Credential, error) {
		store, err := credentials.NewStore(file, credentials.StoreOptions{})
		if err != nil {
			return auth.EmptyCredential, fmt.Errorf("the credentials in %s: %w", file, err)
		}
		return credentials.Credential(store)(ctx, host)
	}
}

// isLoopback reports whether a registry is on this machine and speaks plain HTTP, as in docker.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

func (r *registry) URL() string    { return r.url.String() }
func (r *registry) Collects() bool { return true }

func (r *registry) CloseIdleConnections() { r.transport.CloseIdleConnections() }

// sorted puts an error of the client among those of this package. Of a registry's
// answer only the status and the codes are kept.
func (r *registry) sorted(ctx context.Context, what, key string, err error) error {
	return Explain(ctx, r.repo, what+" "+key, err)
}

// Explain is the method sorted for an error of a Repository.
func Explain(ctx context.Context, repo *remote.Repository, what string, err error) error {
	host := repo.Reference.Host()
	var answer *errcode.ErrorResponse
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errdef.ErrNotFound):
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%s: %s: %w: no credentials were found; log in with `docker login %s`", what, host, ErrDenied, host)
	case errors.As(err, &answer):
		var codes []string
		for _, e := range answer.Errors {
			codes = append(codes, e.Code)
		}
		kind := ofStatus(answer.StatusCode)
		if kind == nil {
			kind = ErrAway
		}
		if kind == ErrDenied {
			codes = append(codes, "log in with `docker login "+host+"`, as the user who mounts")
		}
		return fmt.Errorf("%s: %s: %w (%s)", what, host, kind, strings.Join(codes, ", "))
	}
	return fmt.Errorf("%s: %w", what, ofTransport(ctx, host, err))
}

// place says what a key is in a registry: a blob or a tag.
func place(key string) (blob digest.Digest, tag string, err error) {
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

func blobOf(o Object) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: objectType, Digest: digest.NewDigestFromEncoded(digest.SHA256, o.Name), Size: o.Size}
}

func (r *registry) Put(ctx context.Context, key string, data []byte, o PutOptions) error {
	blob, tag, err := place(key)
	if err != nil {
		return err
	}
	if tag == "" {
		d := ocispec.Descriptor{MediaType: objectType, Digest: blob, Size: int64(len(data))}
		return r.sorted(ctx, "write", key, r.repo.Blobs().Push(ctx, d, bytes.NewReader(data)))
	}
	if o.IfAbsent { // another writer may still come between
		if _, err := r.repo.Resolve(ctx, tag); err == nil {
			return fmt.Errorf("write %s: %w", key, ErrChanged)
		} else if !errors.Is(err, errdef.ErrNotFound) {
			return r.sorted(ctx, "look for", key, err)
		}
	}
	m := oras.PackManifestOptions{ManifestAnnotations: map[string]string{refNote: base64.StdEncoding.EncodeToString(data)}}
	for _, k := range o.Keeps {
		m.Layers = append(m.Layers, blobOf(k))
	}
	_, err = oras.PackManifest(ctx, tagged{r.repo, tag}, oras.PackManifestVersion1_1, artifactType, m)
	return r.sorted(ctx, "write", key, err)
}

// tagged gives manifests a tag.
type tagged struct {
	*remote.Repository
	tag string
}

func (t tagged) Push(ctx context.Context, d ocispec.Descriptor, data io.Reader) error {
	if d.MediaType == ocispec.MediaTypeImageManifest {
		return t.PushReference(ctx, d, data, t.tag)
	}
	return t.Repository.Push(ctx, d, data)
}

// value returns what a tag has.
func (r *registry) value(ctx context.Context, key, tag string) ([]byte, error) {
	raw, err := whole(ctx, func() (io.ReadCloser, int64, error) {
		d, body, err := r.repo.FetchReference(ctx, tag)
		return body, d.Size, err
	}, MaxValue)
	if err != nil {
		return nil, r.sorted(ctx, "read", key, err)
	}
	data, err := refOf(raw)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return data, nil
}

func refOf(raw []byte) ([]byte, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil || m.ArtifactType != artifactType {
		return nil, fmt.Errorf("%w: the tag does not name a snapshot", ErrNotFound)
	}
	data, err := base64.StdEncoding.DecodeString(m.Annotations[refNote])
	if err != nil {
		return nil, fmt.Errorf("the manifest has no snapshot: %w", err)
	}
	return data, nil
}

// GetRange asks for the range itself: the library's Fetch would ask for all, and
// once more from where it is told to seek.
func (r *registry) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	blob, tag, err := place(key)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, nil
	}
	if tag != "" {
		data, err := r.value(ctx, key, tag)
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
	data, err := whole(ctx, func() (io.ReadCloser, int64, error) {
		resp, err := r.client.Do(req)
		if err != nil {
			return nil, 0, err
		}
		return rangeOf(resp, off, n)
	}, n)
	if errors.Is(err, errBeyond) {
		return nil, nil
	}
	return data, r.sorted(ctx, "read", key, err)
}

// errBeyond: the range begins behind the object's end.
var errBeyond = errors.New("range behind the end")

// rangeOf returns the requested part of an answer, which may be the whole object.
func rangeOf(resp *http.Response, off, n int64) (body io.ReadCloser, size int64, err error) {
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
		err = errBeyond
	case http.StatusRequestedRangeNotSatisfiable:
		err = errBeyond
	default:
		err = &errcode.ErrorResponse{StatusCode: resp.StatusCode}
	}
	return nil, 0, errors.Join(err, resp.Body.Close())
}

func (r *registry) Stat(ctx context.Context, key string) (Info, error) {
	blob, tag, err := place(key)
	if err != nil {
		return Info{}, err
	}
	var d ocispec.Descriptor
	if tag == "" {
		d, err = r.repo.Blobs().Resolve(ctx, blob.String())
	} else {
		d, err = r.repo.Resolve(ctx, tag)
	}
	return Info{Key: key, Size: d.Size}, r.sorted(ctx, "look for", key, err)
}

// List knows the tags only; their sizes would be a request each.
func (r *registry) List(ctx context.Context, prefix string, fn func(Info) error) error {
	if prefix != "ref/" {
		return fmt.Errorf("list %s in a registry: %w", prefix, ErrUnsupported)
	}
	var all []string
	err := r.repo.Tags(ctx, "", func(tags []string) error {
		all = append(all, tags...)
		return nil
	})
	if err = r.sorted(ctx, "list", prefix, err); err != nil && !errors.Is(err, ErrNotFound) {
		return err // a repository that is not found begins with its first push
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
	_, tag, err := place(key)
	if err != nil {
		return err
	}
	if tag == "" {
		return fmt.Errorf("delete %s: a registry frees its blobs itself: %w", key, ErrUnsupported)
	}
	d, err := r.repo.Resolve(ctx, tag)
	if err == nil {
		err = r.repo.Manifests().Delete(ctx, d)
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return nil
	}
	return r.sorted(ctx, "delete", key, err)
}
