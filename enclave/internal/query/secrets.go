package query

import (
	"bytes"
	"slices"

	"cloister/enclave/internal/org"
)

var secrets = []*Query{stateQuery("list_secrets", listSecrets)}

type secretsRequest struct {
	Head
	PaginationOptions *Pagination `json:"paginationOptions"`
}

// lastID is above the id of every secret.
var lastID = org.ID(bytes.Repeat([]byte{0xff}, len(org.ID{})))

// listSecrets answers the descriptions of secrets, newest first. No query returns the secrets themselves.
func listSecrets(v *View, in *secretsRequest) ([]byte, error) {
	b, err := in.PaginationOptions.bounds()
	if err != nil {
		return nil, err
	}
	var page []*org.Secret
	take := func(s *org.Secret) bool {
		page = append(page, s)
		return len(page) < b.limit
	}
	switch {
	case b.before != nil:
		if err = v.checkSecretCursor("before", *b.before); err == nil {
			err = v.EachSecret(*b.before, take)
			slices.Reverse(page)
		}
	case b.after != nil:
		if err = v.checkSecretCursor("after", *b.after); err == nil {
			err = v.EachSecretBefore(*b.after, take)
		}
	default:
		err = v.EachSecretBefore(lastID, take)
	}
	return many(`{"secrets":`, page, err, appendSecret)
}

func (v *View) checkSecretCursor(name string, cursor org.ID) error {
	s, err := v.Secret(cursor)
	if err == nil && s == nil {
		err = unknownCursor(name)
	}
	return err
}

func appendSecret(dst []byte, s *org.Secret) []byte {
	dst = ident(dst, `{"secretId":`, s.ID)
	if s.Name != "" {
		dst = text(dst, `,"name":`, s.Name)
	}
	dst = array(dst, `,"staticProperties":`, s.Properties, func(dst []byte, p org.Property) []byte {
		dst = text(dst, `{"key":`, p.Key)
		return append(text(dst, `,"value":`, p.Value), '}')
	})
	return append(number(dst, `,"createdAtUnixMs":`, s.CreatedMs), '}')
}
