package wallet

import "cloister/enclave/internal/org"

// Describe finds the interface of a contract as its chain reads it.
var Describe = describe

// PlaceOf is the name under which the interface of an address is kept.
var PlaceOf = placeOf

// DescribedBytes is how much text of interfaces is kept described.
func DescribedBytes() int {
	descriptions.mu.Lock()
	defer descriptions.mu.Unlock()
	return descriptions.bytes
}

// IsDescribed tells whether the description of an interface is kept.
func IsDescribed(id org.ID) bool { return descriptions.get(id) != nil }
