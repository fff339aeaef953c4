package fairqueue

// Flows is how many organizations are remembered.
func (q *Queue) Flows() int { return q.flows }
