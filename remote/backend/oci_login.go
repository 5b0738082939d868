package backend

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"

	oci "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/amberfs/amberfs/internal/env"
)

// Repository returns a repository with the name HOST/REPOSITORY. It makes no request.
func Repository(name string) (*remote.Repository, error) {
	repo, err := remote.NewRepository(name)
	if err != nil {
		return nil, err
	}
	if _, _, err := setClient(repo, ""); err != nil {
		return nil, err
	}

	return repo, nil
}

// setClient gives a repository a client that uses the credentials in file. If file is "", the client uses the
// credentials of the user, see userCredentialFunc.
func setClient(repo *remote.Repository, file string) (*auth.Client, *http.Transport, error) {
	transport, err := newTransport()
	if err != nil {
		return nil, nil, err
	}

	credential := fileCredentialFunc(file)
	if file == "" {
		if credential, err = userCredentialFunc(repo.Reference); err != nil {
			return nil, nil, err
		}
	}

	client := &auth.Client{
		Client: &http.Client{Transport: retry.NewTransport(transport), CheckRedirect: redirectPolicy(repo.Reference.Host())},
		Header: http.Header{"User-Agent": {"amberfs"}},
		Cache:  auth.NewCache(), Credential: credential,
	}

	repo.Client = client
	repo.PlainHTTP = isLoopback(repo.Reference.Host())

	return client, transport, nil
}

// userCredentialFunc returns a function that searches first the credentials of podman, then those of docker. As
// podman can have credentials for a part of a registry, the function tries the repository and each part of its path.
func userCredentialFunc(ref oci.Reference) (auth.CredentialFunc, error) {
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
	if _, err := os.Stat(file); err == nil { // without the file, or without access to it, podman has no credentials
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

// fileCredentialFunc returns a function that reads the file for each request, because the contents can change.
func fileCredentialFunc(file string) auth.CredentialFunc {
	return func(ctx context.Context, host string) (auth.Credential, error) {
		store, err := credentials.NewStore(file, credentials.StoreOptions{})
		if err != nil {
			return auth.EmptyCredential, fmt.Errorf("the credentials in %s: %w", file, err)
		}
		return credentials.Credential(store)(ctx, host)
	}
}

// isLoopback reports whether a registry is on this machine. Requests to such a registry use plain HTTP, as in docker.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}
