package boot

// Times and Inverse are the field's.
var (
	Times   = times
	Inverse = inverse
)
