// Package fault holds the one error type that leaves the enclave and the alarms that the
// enclave raises about its host.
//
// A user may see an *Error: a stable gRPC code, an optional machine code of the published
// interface, a message, and the fields at fault. Any other error becomes INTERNAL with a
// reference number at the endpoint; its text stays inside.
package fault

import (
	"errors"
	"fmt"
)

// Code is a google.rpc.Code, whose numbers never change. The HTTP status follows from it
// alone.
type Code uint8

// The codes that the interface uses.
const (
	Cancelled          Code = 1
	Unknown            Code = 2
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
	Unauthenticated    Code = 16
)

// statuses are those of the published gateway; 11 is OUT_OF_RANGE.
var statuses = map[Code]int{
	InvalidArgument: 400, FailedPrecondition: 400, 11: 400, Unauthenticated: 401, PermissionDenied: 403, NotFound: 404,
	AlreadyExists: 409, Aborted: 409, ResourceExhausted: 429, Cancelled: 499, Unimplemented: 501, Unavailable: 503, DeadlineExceeded: 504,
}

// HTTPStatus is the status that the published gateway maps a code to.
func (c Code) HTTPStatus() int {
	if status, ok := statuses[c]; ok {
		return status
	}
	return 500
}

// Violation names a field at fault. Field is a path such as
// `privateKeys.0.privateKeyName`, as the interface writes it.
type Violation struct {
	Field       string
	Description string
}

// An Evaluation is one policy's part in a refusal.
type Evaluation struct {
	PolicyID string
	Outcome  string
	// Name, Clause, Position and Values explain it, if Clause is not empty. Values are
	// expressions, each followed by what it came to.
	Name, Clause string
	Position     int64
	Values       []string
	// Expression is the text at Position that decided, with what values were compared with; empty: not told.
	Expression string
}

// Error is what a user may be told. It is immutable once returned.
type Error struct {
	Code Code
	// Name is the machine code of the published interface
	// (turnkeyErrorCode), or empty.
	Name string
	// Message is for people; it holds no secret and nothing internal.
	Message string
	// Violations are the fields at fault, if any.
	Violations []Violation
	// Denied is set for a refusal by policy; Evaluations then tell by which.
	Denied      bool
	Evaluations []Evaluation
}

func (e *Error) Error() string { return e.Message }

// New makes an Error with a formatted message and no machine code.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithCode makes an Error with a machine code of the interface.
func WithCode(code Code, name, format string, args ...any) *Error {
	return &Error{Code: code, Name: name, Message: fmt.Sprintf(format, args...)}
}

// Field makes an InvalidArgument about one field.
func Field(field, format string, args ...any) *Error {
	d := fmt.Sprintf(format, args...)
	return &Error{Code: InvalidArgument, Message: d, Violations: []Violation{{field, d}}}
}

// WithName is e with a machine code of the interface.
func (e *Error) WithName(name string) *Error {
	named := *e
	named.Name = name
	return &named
}

// Of finds the Error in err, or nil when err holds none (an internal error).
func Of(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}
