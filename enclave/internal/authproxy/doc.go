// Package authproxy is what the auth proxy's endpoints take, what they ask of the
// organization in its proxy's name, and what they answer.
//
// An endpoint's body comes from anybody: nobody has stamped it. It is bounded and
// read strictly, in camelCase or snake_case, and becomes the body of one activity
// or query, whose parameters beyond the caller's are the configuration's. The room
// core/internal/proxy stamps that body with the proxy's key, and it takes the way of any other.
//
// All of it are functions of what is handed in. Nothing here reads a clock, holds
// a key, counts requests or knows whether an activity is live. The errors are
// *fault.Error where nothing else is said.
package authproxy
