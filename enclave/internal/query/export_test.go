package query

import "reflect"

// MaxAsked bounds what one search opens.
const MaxAsked = maxAsked

// Own are the live queries that the interface does not have.
var Own = own

// Live lists the live queries by operation.
func Live() map[string]*Query { return live }

// Shape is the Go type of a query's request.
func (q *Query) Shape() reflect.Type { return q.shape }
