package wallet

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"strings"
	"sync"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// ContractInterfaces are the kinds about smart contract interfaces.
var ContractInterfaces = activity.Family{
	activity.Kind[CreateInterface, InterfaceID]{Name: "CREATE_SMART_CONTRACT_INTERFACE", Resource: "SMART_CONTRACT_INTERFACE", Action: "CREATE", Run: createInterface, Explain: func(_ *org.Tx, in *CreateInterface, o *show.Object) error {
		o.Warn(show.InterfaceChanged)
		return nil
	}},
	activity.Kind[InterfaceID, InterfaceID]{Name: "DELETE_SMART_CONTRACT_INTERFACE", Resource: "SMART_CONTRACT_INTERFACE", Action: "DELETE", Run: deleteInterface, Explain: explainDeletedInterface},
}

// InterfaceType is the language of a contract interface.
type InterfaceType string

// The interface types.
const (
	interfaceEthereum InterfaceType = "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM"
	interfaceSolana   InterfaceType = "SMART_CONTRACT_INTERFACE_TYPE_SOLANA"
)

// Valid reports whether t is an interface type of the interface.
func (t InterfaceType) Valid() bool { return t == interfaceEthereum || t == interfaceSolana }

// describers are the chains by the languages of their contract interfaces.
var describers = map[InterfaceType]chain.Describer{interfaceEthereum: eth.Chain{}, interfaceSolana: sol.Chain{}}

// CreateInterface stores the interface of a contract, by which its calls are decoded: an Ethereum ABI, or a Solana IDL of Anchor's or Shank's form.
type CreateInterface struct {
	SmartContractAddress   string        `json:"smartContractAddress" rule:"required"`
	SmartContractInterface string        `json:"smartContractInterface" rule:"required,max_length=400000"`
	Type                   InterfaceType `json:"type" rule:"required"`
	Label                  string        `json:"label" rule:"required,label,label_length"`
	Notes                  *string       `json:"notes"`
}

func (in *CreateInterface) Check() error {
	_, wrong := eth.ParseAddress(in.SmartContractAddress)
	if in.Type == interfaceSolana {
		_, wrong = sol.ParseAddress(in.SmartContractAddress)
	}
	if wrong != nil {
		return fault.Field("smartContractAddress", "invalid smart contract address")
	}
	described, err := describers[in.Type].Describe(in.SmartContractInterface)
	if err != nil {
		return fault.Field("smartContractInterface", "invalid smart contract interface: %s", err)
	}
	if i, ok := described.(*eth.Interface); ok {
		if name, standard := i.FalseStandard(); name != "" {
			return fault.Field("smartContractInterface", "invalid smart contract interface: %.80s has the selector of the built-in function %s", name, standard)
		}
	}
	return activity.CheckNotes("notes", in.Notes)
}

// placeOf is the unique name of the interface of an address. Labels are in the same collection of names; prefixes
// distinguish the two.
func placeOf(typ InterfaceType, address string) string {
	if typ == interfaceEthereum {
		address = strings.ToLower(address)
	}
	return "a:" + string(typ) + ":" + address
}

// describe finds the parsed interface of a contract, or nil. A stored one that today's rules refuse is an error:
// otherwise the facts that policies read by it would vanish silently.
func describe(tx *org.Tx, c chain.Reader, typ InterfaceType, address string) (chain.Description, error) {
	reader, ok := c.(chain.Describer)
	if !ok {
		return nil, nil
	}
	k, err := findInterface(tx, reader, typ, address)
	if k == nil || err != nil {
		return nil, err
	}
	return k.description, nil
}

// findInterface is describe with the id and the hash of the text.
func findInterface(tx *org.Tx, reader chain.Describer, typ InterfaceType, address string) (*kept, error) {
	id, err := tx.IDByName(org.NameInterface, placeOf(typ, address))
	if err != nil || id.Zero() {
		return nil, err
	}
	if k := descriptions.get(id); k != nil {
		return k, nil
	}
	i, err := tx.Interface(id)
	if i == nil || err != nil {
		return nil, err
	}
	text, err := tx.InterfaceText(i)
	if err != nil {
		return nil, err
	}
	d, err := reader.Describe(text)
	if err != nil {
		return nil, fault.New(fault.FailedPrecondition, "the interface uploaded for %s cannot be read any more: delete it and upload it again: %v", address, err)
	}
	k := &kept{id, i.MadeBy, i.Address, d, sha256.Sum256([]byte(text)), len(text)}
	descriptions.put(k)
	return k, nil
}

// descriptions caches parsed interfaces, for all organizations: an interface never changes, and a description
// depends on its text alone.
var descriptions = descriptionCache{most: 4 << 20}

// descriptionCache is a cache of descriptions, bounded by the bytes of their source texts: a description takes a
// small multiple of its text. It evicts the least recently used. It is safe for concurrent use.
type descriptionCache struct {
	most int

	mu     sync.Mutex
	bytes  int
	by     map[org.ID]*list.Element
	recent list.List // of *kept, the most recently used in front
}

// kept does not change.
type kept struct {
	id, madeBy  org.ID
	address     string
	description chain.Description
	hash        [32]byte // SHA-256 of the text
	bytes       int
}

func (d *descriptionCache) get(id org.ID) *kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.by[id]
	if e == nil {
		return nil
	}
	d.recent.MoveToFront(e)
	return e.Value.(*kept)
}

func (d *descriptionCache) put(k *kept) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by[k.id] != nil {
		return
	}
	if d.by == nil {
		d.by = map[org.ID]*list.Element{}
	}
	d.by[k.id] = d.recent.PushFront(k)
	for d.bytes += k.bytes; d.bytes > d.most; {
		last := d.recent.Back()
		k := d.recent.Remove(last).(*kept)
		delete(d.by, k.id)
		d.bytes -= k.bytes
	}
}

func labelOf(label string) string { return "l:" + label }

// InterfaceID names an interface: the one to be deleted, or the result.
type InterfaceID struct {
	SmartContractInterfaceID string `json:"smartContractInterfaceId" rule:"required"`
}

// PutInterface stores an interface with its text, so that it is found by its address.
func PutInterface(tx *org.Tx, i *org.Interface, text string) error {
	return cmp.Or(tx.TakeName(org.NameInterface, placeOf(InterfaceType(i.Type), i.Address), i.ID), tx.PutInterface(i, text))
}

func createInterface(tx *activity.Tx, in *CreateInterface) (*InterfaceID, error) {
	if err := activity.Interfaces.Add(tx, 1); err != nil {
		return nil, err
	}
	id, err := activity.NewNamed(tx, org.NameInterface, "smart contract interface", "label", labelOf(in.Label))
	if err != nil {
		return nil, err
	}
	place := placeOf(in.Type, in.SmartContractAddress)
	holder, err := tx.IDByName(org.NameInterface, place)
	if err != nil {
		return nil, err
	}
	if !holder.Zero() {
		return nil, fault.Field("smartContractAddress", "smart contract interface address must be unique in its type")
	}
	i := &org.Interface{
		ID: id, Address: in.SmartContractAddress, Type: string(in.Type), Label: in.Label, Notes: activity.TextOf(in.Notes), CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs,
		MadeBy: tx.User,
	}
	return &InterfaceID{id.String()}, PutInterface(tx.Tx, i, in.SmartContractInterface)
}

func deleteInterface(tx *activity.Tx, in *InterfaceID) (*InterfaceID, error) {
	i, err := activity.FindField(tx.Interface, "smart contract interface", "smartContractInterfaceId", in.SmartContractInterfaceID)
	if err != nil {
		return nil, err
	}
	tx.FreeName(org.NameInterface, placeOf(InterfaceType(i.Type), i.Address))
	tx.FreeName(org.NameInterface, labelOf(i.Label))
	tx.DeleteInterface(i)
	return in, activity.Interfaces.Add(tx, -1)
}
