package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"
)

// identityVariable names a file of keys that decrypt, as age-keygen writes it.
// Without it, identityFile in the user's configuration is read if it is there.
const (
	identityVariable = "AMBERFS_AGE_IDENTITY"
	identityFile     = "amberfs/age-identity.txt"
)

// identities reads the keys that decrypt remotes.
func identities() ([]age.Identity, error) {
	name, given := os.LookupEnv(identityVariable)
	if !given {
		dir, err := os.UserConfigDir()
		if err != nil {
			return nil, nil //nolint:nilerr // no home, no keys
		}
		name = filepath.Join(dir, identityFile)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !given {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", identityVariable, err)
	}
	defer f.Close()
	ids, err := age.ParseIdentities(f)
	if err != nil {
		return nil, fmt.Errorf("%s: it holds no key of age", name) // the error may quote the key
	}
	return ids, nil
}
