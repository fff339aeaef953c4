// Package authproxy describes the auth proxy's endpoints: the requests that they take, the
// activities and queries that they ask for in the proxy's name, and their answers.
//
// Anybody can send a body to an endpoint; nobody has stamped it. It is bounded and read
// strictly, in camelCase or snake_case, and becomes the body of one activity or query. The
// configuration adds the parameters that the caller does not give. core/internal/proxy stamps
// that body with the proxy's key, and then it is handled like any other.
//
// Nothing here reads a clock, holds a key, counts requests or knows whether an activity is
// live. Errors are *fault.Error where nothing else is said.
package authproxy
