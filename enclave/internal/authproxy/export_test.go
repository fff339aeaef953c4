package authproxy

import "reflect"

// Shape is the Go type of an endpoint's request.
func (e *Endpoint) Shape() reflect.Type {
	in, _ := e.read([]byte("{}"))
	return reflect.TypeOf(in).Elem()
}
