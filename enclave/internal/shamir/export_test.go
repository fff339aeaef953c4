package shamir

// Times and Inverse are the field's.
var (
	Times   = multiply
	Inverse = inverse
)
