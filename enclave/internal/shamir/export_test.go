package shamir

// Times and Inverse are the field's.
var (
	Times   = times
	Inverse = inverse
)
