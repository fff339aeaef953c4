package query

import "reflect"

// Live lists the live queries by operation.
func Live() map[string]*Query { return live }

// Shape is the Go type of a query's request.
func (q *Query) Shape() reflect.Type { return q.shape }
