package laptop

import (
	"errors"
	"io/fs"
	"os"

	"cloister/sim/idp"
)

// IdentityKeys are the keys of the simulator's identity provider, made when absent:
// tokens and key sets that others keep stay good over a start.
func (d *Dir) IdentityKeys() (*idp.Keys, error) {
	b, err := os.ReadFile(d.file(fileIdentityKeys))
	if err == nil {
		return idp.ParseKeys(b)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k, err := idp.NewKeys()
	if err != nil {
		return nil, err
	}
	if b, err = k.Marshal(); err != nil {
		return nil, err
	}
	return k, writeSecret(d.file(fileIdentityKeys), b)
}
