package activity

import (
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
)

// Submit is the parsed body of a submit request.
type Submit struct {
	Type         string
	TimestampMs  uint64
	Organization org.ID
	Parameters   []byte // the JSON object; shares memory with the body
	WantsProofs  bool
}

type submitBody struct {
	Type              string         `json:"type" rule:"required"`
	TimestampMs       uint64         `json:"timestampMs" rule:"required"`
	OrganizationID    string         `json:"organizationId" rule:"required"`
	Parameters        strictjson.Raw `json:"parameters" rule:"required"`
	GenerateAppProofs bool           `json:"generateAppProofs"`
}

// ParseSubmit reads the body of a submit request strictly, parameters for syntax only. Errors are
// InvalidArgument, and NotFound for an id that no organization has.
func ParseSubmit(body stamp.Body) (*Submit, error) { return parseSubmit(body.Bytes()) }

// ParseStored is ParseSubmit for the body in an entry.
func ParseStored(body stamp.Stored) (*Submit, error) { return parseSubmit(body.Bytes()) }

func parseSubmit(body []byte) (*Submit, error) {
	var b submitBody
	if err := strictjson.Decode(body, &b); err != nil {
		return nil, err
	}
	id, err := ParseOrganization(b.OrganizationID)
	if err != nil {
		return nil, err
	}
	return &Submit{b.Type, b.TimestampMs, id, b.Parameters, b.GenerateAppProofs}, nil
}

// ParseOrganization parses the organizationId of a request.
func ParseOrganization(text string) (org.ID, error) {
	id, err := org.ParseID(text)
	switch {
	case err != nil:
		return id, fault.WithCode(fault.InvalidArgument, "INVALID_ORGANIZATION_ID", "malformed organization ID provided")
	case id.Zero(): // reserved: no organization has it, so the reply reveals nothing
		return id, NoOrganization(id)
	}
	return id, nil
}

// NoOrganization is the NotFound error of an organization, for callers who may learn that it does not exist.
func NoOrganization(id org.ID) error {
	return fault.WithCode(fault.NotFound, "ORGANIZATION_NOT_FOUND", "no organization found with the given ID: %s", id)
}
