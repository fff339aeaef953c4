package strictjson

// Limits bound what one Decode may build. A body is bounded in bytes before it
// comes here; these bound what the bytes can blow up to.
type Limits struct {
	Depth   int // objects and arrays inside each other
	Items   int // elements of one array
	Members int // members of one object whose names are free (maps, Raw)
	Values  int // values of every kind in the whole text
}

// DefaultLimits hold where the caller names none.
var DefaultLimits = Limits{Depth: 64, Items: 1000, Members: 1000, Values: 100_000}

const (
	maxFields  = 256 // fields of one struct, embedded ones included
	maxQuoted  = 64  // bytes of a name from outside that an error repeats
	fewNames   = 16  // up to here a linear search beats a map
	maxEmail   = 255 // bytes of an e-mail address
	maxLabel   = 255 // runes of a label
	firstItems = 4   // room made for the first elements of an array
)
