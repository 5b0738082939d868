package backend

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
)

// Open returns the backend that a URL names, without asking it anything:
//
//	s3://BUCKET/PREFIX?endpoint=URL&region=NAME
//	oci://HOST/REPOSITORY
//	file:///DIR
//
// Credentials are looked for where the clients of these services look; a URL with
// a user, a password or an unknown parameter is refused.
func Open(raw string) (Backend, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse quotes its argument, which may hold a secret.
		return nil, errors.New("this is no URL of a remote: s3://BUCKET/PREFIX, oci://HOST/REPOSITORY or file:///DIR")
	}
	if u.User != nil {
		return nil, fmt.Errorf("the URL of a remote holds no credentials; %s", whereCredentials(u.Scheme))
	}
	if u.Fragment != "" {
		return nil, fmt.Errorf("a remote's URL has no fragment: #%s", u.Fragment)
	}
	switch u.Scheme {
	case "s3":
		return openS3(u)
	case "oci":
		return openOCI(u)
	case "file":
		return openDir(u)
	}
	return nil, fmt.Errorf("%s:// is no kind of remote; there are s3://BUCKET/PREFIX, oci://HOST/REPOSITORY and file:///DIR", u.Scheme)
}

func whereCredentials(scheme string) string {
	if scheme == "oci" {
		return "they are taken from ~/.docker/config.json (docker login)"
	}
	return "they are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws, or the machine's role"
}

var schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// IsURL reports whether s names a remote by a URL, also by one of an unknown kind.
func IsURL(s string) bool { return schemePattern.MatchString(s) }

// parameters returns the query of a remote's URL, of which only some are known.
// Unknown ones are named without their values.
func parameters(u *url.URL, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the parameters of the remote's URL cannot be read")
	}
	p := map[string]string{}
	for _, k := range known {
		p[k] = values.Get(k)
		values.Del(k)
	}
	for k := range values {
		return nil, fmt.Errorf("unknown parameter %q in the remote's URL", k)
	}
	return p, nil
}
