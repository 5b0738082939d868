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

// credentialFiles stores the credentials of remotes in files. CSI requests contain them as secrets. The daemon reads a
// file when it uses a URL that contains the file's path. Requests with equal secrets share a file. The file is
// removed with the last volume or snapshot that needs it.
type credentialFiles struct {
	dir   string
	locks locks
}

// lock locks the directory of the files. In addition, each file has a lock, named by the file's id. Running
// requests that use the file take this lock shared.
func (l *credentialFiles) lock() (unlock func(), err error) {
	return l.locks.acquire("credentials", false, true)
}

// withCredentials stores the secrets of a request and calls create, which creates the volume or snapshot of r. If
// create fails, withCredentials removes the secrets.
func (d *driver) withCredentials(ctx context.Context, r *record, secrets map[string]string, create func() error) error {
	id, release, err := d.credentials.save(r.Remote, secrets)
	if err != nil {
		return err
	}

	r.CredentialsID = id
	err = create()
	release()
	if err != nil {
		_ = d.removeCredentials(ctx, r) // after an error, the next request with this id removes the secrets
	}

	return err
}

// save stores the secrets for a remote in a file and returns the file's id, "" without secrets. The file is kept
// until release is called, and as long as a record contains its id.
func (l *credentialFiles) save(remote string, secrets map[string]string) (id string, release func(), err error) {
	if len(secrets) == 0 {
		return "", func() {}, nil
	}
	text, err := credentialsText(remote, secrets)
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

// find returns the id of the file that contains text, "" if no file does. The caller of find and write has locked
// the directory.
func (l *credentialFiles) find(text []byte) (id string, err error) {
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

// write stores text in the file with an id. It replaces an older text.
func (l *credentialFiles) write(id string, text []byte) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}

	tmp := l.path(id) + ".tmp"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}

	return os.Rename(tmp, l.path(id))
}

func (l *credentialFiles) path(id string) string { return filepath.Join(l.dir, id) }

// renew replaces the credentials of a record with the secrets of a request.
func (l *credentialFiles) renew(r *record, secrets map[string]string) error {
	if len(secrets) == 0 || r.CredentialsID == "" {
		return nil
	}
	text, err := credentialsText(r.Remote, secrets)
	if err != nil {
		return err
	}

	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()

	return l.write(r.CredentialsID, text)
}

// hidePaths removes the paths of credentials from the text of an error: only the administrator may know them.
func (l *credentialFiles) hidePaths(text string) string {
	text = credentialsParameterPattern.ReplaceAllString(text, "credentials=(Secret)")
	return regexp.MustCompile(regexp.QuoteMeta(l.dir)+`[/A-Z0-9]*`).ReplaceAllString(text, "the Secret")
}

var credentialsParameterPattern = regexp.MustCompile("credentials=[^\\s&@\"'`]*")

// urlWithCredentials returns the URL of a remote. If id is not "", the URL contains the path of the credentials file
// with this id.
func (l *credentialFiles) urlWithCredentials(remote, id string) string {
	u, err := url.Parse(remote)
	if id == "" || err != nil {
		return remote
	}

	q := u.Query()
	q.Set("credentials", l.path(id))
	u.RawQuery = q.Encode()
	return u.String()
}

// dockerConfigKey is the name of the secret for a registry, as in Kubernetes. The secrets for S3 (s3Keys) have the
// names of the environment variables.
const dockerConfigKey = ".dockerconfigjson"

var (
	s3Keys                = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
	unquotedSecretPattern = regexp.MustCompile("^[^\\s\"'`#;\\\\]+$") // a secret that needs no quotes in an ini file
)

// credentialsText returns the content of the file that the daemon reads. Its errors contain no secrets.
func credentialsText(remote string, secrets map[string]string) ([]byte, error) {
	names := strings.Join(slices.Sorted(maps.Keys(secrets)), ", ")

	switch {
	case strings.HasPrefix(remote, "s3://"):
		text := []byte("[default]\n")

		for _, k := range s3Keys {
			v, ok := secrets[k]
			if !ok && k != "AWS_SESSION_TOKEN" || ok && !unquotedSecretPattern.MatchString(v) {
				return nil, invalidArgument("the secret %s is missing, or has spaces or quotes", k)
			}
			if ok {
				text = fmt.Appendf(text, "%s = %s\n", strings.ToLower(k), v)
			}
		}

		for k := range secrets {
			if !slices.Contains(s3Keys, k) {
				return nil, invalidArgument("the secrets are %s, and those for S3 are %s", names, strings.Join(s3Keys, ", "))
			}
		}

		return text, nil

	case strings.HasPrefix(remote, "oci://"):
		text := []byte(secrets[dockerConfigKey])
		if len(secrets) != 1 || !json.Valid(text) {
			return nil, invalidArgument("the secrets are %s, and the one for a registry is %s, in JSON", names, dockerConfigKey)
		}
		return text, nil
	}

	return nil, invalidArgument("there are secrets (%s), which are the credentials of an s3:// or oci:// remote, and there is none", names)
}

// inheritCredentials adds the credentials of the source of r to r, because r may have contents that only the source's
// remote has.
func (d *driver) inheritCredentials(ctx context.Context, r *record, src source) error {
	kind, id := volumeKind, src.volume
	if src.snapshot != "" {
		kind, id = snapshotKind, src.snapshot
	}
	if id == "" {
		return nil
	}

	sourceRecord, err := d.findRecord(ctx, kind, id)
	if status.Code(err) == codes.NotFound {
		return nil // the source is not on this node, or does not exist: in the second case the request fails later
	}
	if err != nil {
		return err
	}

	r.addCredentials(sourceRecord)

	return nil
}

// addCredentials adds the credentials of sourceRecord, which describes the source of r.
func (r *record) addCredentials(sourceRecord *record) {
	if r.CredentialsID == "" && r.Remote == sourceRecord.Remote {
		r.CredentialsID = sourceRecord.CredentialsID
	}

	for _, id := range append(slices.Clone(sourceRecord.SourceCredentialsIDs), sourceRecord.CredentialsID) {
		if id != "" && !slices.Contains(r.SourceCredentialsIDs, id) {
			r.SourceCredentialsIDs = append(r.SourceCredentialsIDs, id)
		}
	}
}

// removeCredentials removes the credentials of a deleted record, unless another record or a running request needs them.
func (d *driver) removeCredentials(ctx context.Context, deleted *record) error {
	ids := append(slices.Clone(deleted.SourceCredentialsIDs), deleted.CredentialsID)
	if ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" }); len(ids) == 0 {
		return nil
	}

	unlock, err := d.credentials.lock()
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
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == r.CredentialsID || slices.Contains(r.SourceCredentialsIDs, id) })
		}
	}

	for _, id := range ids {
		unlockFile, err := d.credentials.locks.acquire(id, false, false)
		if errors.Is(err, errLocked) {
			continue
		}
		if err != nil {
			return err
		}

		err = os.Remove(d.credentials.path(id))
		unlockFile()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}
