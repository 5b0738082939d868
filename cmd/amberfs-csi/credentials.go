package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/service"
)

// logins are the credentials of remotes that came as secrets. Each is a file that the daemon reads
// when it uses a URL that names it. Requests with the same secrets have the same file, which goes
// with the last volume or snapshot that needs it.
type logins struct {
	dir   string
	locks locks
}

// lock guards the directory. The lock of a file's id is shared by the requests under way that use it.
func (l *logins) lock() (unlock func(), err error) {
	return l.locks.acquire("credentials", false, true)
}

// withLogin makes what a record is about with the secrets of a request.
func (d *driver) withLogin(ctx context.Context, r *record, secrets map[string]string, make func() error) error {
	login, release, err := d.logins.take(r.Remote, secrets)
	if err != nil {
		return err
	}

	r.Login = login
	err = make()
	release()
	if err != nil {
		_ = d.forget(ctx, r) // else it stays until the next try
	}

	return err
}

// take returns the id of a file with the secrets for a remote, "" if there are none. It stays until
// release, and while a record has it.
func (l *logins) take(remote string, secrets map[string]string) (id string, release func(), err error) {
	if len(secrets) == 0 {
		return "", func() {}, nil
	}
	text, err := loginText(remote, secrets)
	if err != nil {
		return "", nil, err
	}

	unlock, err := l.lock()
	if err != nil {
		return "", nil, err
	}
	defer unlock()

	if id, err = l.find(text); err == nil && id == "" {
		id = rand.Text()
		err = l.write(id, text)
	}

	if err == nil {
		release, err = l.locks.acquire(id, true, true)
	}

	return id, release, err
}

// find returns the file with a text. The directory is locked, as for write.
func (l *logins) find(text []byte) (id string, err error) {
	list, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}

	for _, e := range list {
		if b, err := os.ReadFile(l.path(e.Name())); err == nil && bytes.Equal(b, text) {
			return e.Name(), nil
		}
	}

	return "", nil
}

func (l *logins) write(id string, text []byte) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}

	fresh := l.path(id) + ".tmp"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}

	return os.Rename(fresh, l.path(id))
}

func (l *logins) path(id string) string { return filepath.Join(l.dir, id) }

// renew replaces the credentials of a record with those that a request has.
func (l *logins) renew(r *record, secrets map[string]string) error {
	if len(secrets) == 0 || r.Login == "" {
		return nil
	}
	text, err := loginText(r.Remote, secrets)
	if err != nil {
		return err
	}

	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()

	return l.write(r.Login, text)
}

// hide returns the text of an error without the paths of credentials, which are the administrator's.
func (l *logins) hide(text string) string {
	text = credentialsParameter.ReplaceAllString(text, "credentials=(Secret)")
	return regexp.MustCompile(regexp.QuoteMeta(l.dir)+`[/A-Z0-9]*`).ReplaceAllString(text, "the Secret")
}

var credentialsParameter = regexp.MustCompile("credentials=[^\\s&@\"'`]*")

// at is the URL of a remote, with the file that its credentials are in, if any.
func (l *logins) at(remote, id string) string {
	u, err := url.Parse(remote)
	if id == "" || err != nil {
		return remote
	}

	q := u.Query()
	q.Set("credentials", l.path(id))
	u.RawQuery = q.Encode()
	return u.String()
}

// Secrets for S3, by the names that they have in an environment, and the one for a registry, as
// Kubernetes names it.
const dockerConfig = ".dockerconfigjson"

var (
	keysOfS3 = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
	keyForm  = regexp.MustCompile("^[^\\s\"'`#;\\\\]+$") // in an ini file
)

// loginText is the file that the daemon reads. No error has a secret in it.
func loginText(remote string, secrets map[string]string) ([]byte, error) {
	names := strings.Join(slices.Sorted(maps.Keys(secrets)), ", ")

	switch {
	case strings.HasPrefix(remote, "s3://"):
		text := []byte("[default]\n")

		for _, k := range keysOfS3 {
			v, ok := secrets[k]
			if !ok && k != "AWS_SESSION_TOKEN" || ok && !keyForm.MatchString(v) {
				return nil, invalid("the secret %s is missing, or has spaces or quotes", k)
			}
			if ok {
				text = fmt.Appendf(text, "%s = %s\n", strings.ToLower(k), v)
			}
		}

		for k := range secrets {
			if !slices.Contains(keysOfS3, k) {
				return nil, invalid("the secrets are %s, and those for S3 are %s", names, strings.Join(keysOfS3, ", "))
			}
		}

		return text, nil

	case strings.HasPrefix(remote, "oci://"):
		text := []byte(secrets[dockerConfig])
		if len(secrets) != 1 || !json.Valid(text) {
			return nil, invalid("the secrets are %s, and the one for a registry is %s, in JSON", names, dockerConfig)
		}
		return text, nil
	}

	return nil, invalid("there are secrets (%s), which are the credentials of an s3:// or oci:// remote, and there is none", names)
}

// inherit notes which credentials the contents of a record's source may need.
func (d *driver) inherit(ctx context.Context, r *record, src source) error {
	kind, id := volumeKind, src.volume
	if src.snapshot != "" {
		kind, id = snapshotKind, src.snapshot
	}
	if id == "" {
		return nil
	}

	from, err := d.find(ctx, kind, id)
	if status.Code(err) == codes.NotFound {
		return nil // it is elsewhere, or the request will fail
	}
	if err != nil {
		return err
	}

	r.needs(from)

	return nil
}

// needs adds the credentials of what a record begins with.
func (r *record) needs(from *record) {
	if r.Login == "" && r.Remote == from.Remote {
		r.Login = from.Login
	}

	for _, id := range append(slices.Clone(from.Logins), from.Login) {
		if id != "" && !slices.Contains(r.Logins, id) {
			r.Logins = append(r.Logins, id)
		}
	}
}

// forget removes the credentials of a record that is gone, unless another one or a request needs them.
func (d *driver) forget(ctx context.Context, gone *record) error {
	ids := append(slices.Clone(gone.Logins), gone.Login)
	if ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" }); len(ids) == 0 {
		return nil
	}

	unlock, err := d.logins.lock()
	if err != nil {
		return err
	}
	defer unlock()

	for _, kind := range []string{volumeKind, snapshotKind} {
		list, err := d.records(ctx, service.List{Labels: map[string]string{kindLabel: kind}})
		if err != nil {
			return err
		}
		for _, r := range list {
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == r.Login || slices.Contains(r.Logins, id) })
		}
	}

	for _, id := range ids {
		unused, err := d.logins.locks.acquire(id, false, false)
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return err
		}

		err = os.Remove(d.logins.path(id))
		unused()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}
