package authproxy

import "reflect"

// Endpoints are all of them.
func Endpoints() []*Endpoint { return endpoints }

// Shape is the Go type of an endpoint's request.
func (e *Endpoint) Shape() reflect.Type {
	in, _ := e.read([]byte("{}"))
	return reflect.TypeOf(in).Elem()
}
