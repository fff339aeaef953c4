package monitor

// For the tests.
var (
	LeftOf = leftOf
	Grow   = grow
)

// SetMaxPlaces has monitors of a test remember fewer entries.
func SetMaxPlaces(t interface{ Cleanup(func()) }, n int) {
	before := maxPlaces
	maxPlaces = n
	t.Cleanup(func() { maxPlaces = before })
}
