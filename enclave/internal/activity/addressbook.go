package activity

import (
	"encoding/hex"
	"strings"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// Limits of an address book.
const (
	MaxAddressBook  = 16 << 10 // bytes of its text
	MaxAddressNames = 150
	maxAddressName  = 64  // bytes
	maxBookAddress  = 128 // bytes
)

// An AddressName is what an organization calls an address, as the value of the feature org.FeatureAddressBook has it: a JSON list.
type AddressName struct {
	Name    string `json:"name" rule:"required,label"`
	Address string `json:"address" rule:"required"`
}

// ReadAddressBook reads the text of an address book. An address, and a name in whatever case, is there once. Errors are *fault.Error about
// field.
func ReadAddressBook(field, text string) ([]AddressName, error) {
	if len(text) > MaxAddressBook {
		return nil, fault.Field(field, "invalid address book: more than %d bytes", MaxAddressBook)
	}
	var all []AddressName
	if err := strictjson.Decode([]byte(text), &all); err != nil {
		return nil, fault.Field(field, `invalid address book: must be [{"name":"…","address":"…"},…], with names of 1 to %d characters`, maxAddressName)
	}
	if len(all) > MaxAddressNames {
		return nil, fault.Field(field, "invalid address book: more than %d addresses", MaxAddressNames)
	}
	names, addresses := map[string]bool{}, map[string]bool{}
	for _, e := range all {
		name, address := strings.ToLower(e.Name), chain.MatchKey(e.Address)
		switch {
		case len(e.Name) > maxAddressName:
			return nil, fault.Field(field, "invalid address book: a name of more than %d bytes: %s", maxAddressName, Printable(e.Name))
		case !isAddressText(e.Address):
			return nil, fault.Field(field, "invalid address book: no address of any chain: %s", Printable(e.Address))
		case names[name]:
			return nil, fault.Field(field, "invalid address book: two addresses have the name %s", Printable(e.Name))
		case addresses[address]:
			return nil, fault.Field(field, "invalid address book: an address has two names: %s", Printable(e.Address))
		}
		names[name], addresses[address] = true, true
	}
	return all, nil
}

// isAddressText tells whether a text can be an address: all chains write them in letters, digits and few signs.
func isAddressText(text string) bool {
	if len(text) < 8 || len(text) > maxBookAddress {
		return false
	}
	return strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:-_.+/=") == ""
}

// addressBook adds the organization's names of addresses to what a document knows. They come before the names of uploaded interfaces.
func addressBook(tx *org.Tx, known *show.Known) error {
	o, err := tx.Organization()
	if err != nil || o == nil {
		return err
	}
	text, on := o.Features[org.FeatureAddressBook]
	if !on {
		return nil
	}
	all, _ := ReadAddressBook("value", text) // a book that today's rules refuse names nothing
	source := &show.Source{From: show.FromOrganization, Record: org.FeatureAddressBook, SHA256: hex.EncodeToString(show.Sum([]byte(text)))}
	for _, e := range all {
		known.Entries = append(known.Entries, show.Entry{Name: e.Name, Address: e.Address, From: show.FromOrganization, Source: source})
	}
	return nil
}
