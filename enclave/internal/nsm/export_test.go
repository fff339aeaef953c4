package nsm

import "time"

// Timestamp reads the time of a document.
func Timestamp(doc []byte) (time.Time, error) { return timestamp(doc) }
