package activity

import "reflect"

// ParseFingerprint reads the text of a fingerprint.
var ParseFingerprint = parseFingerprint

// Shapes are the Go types of a version's intent and result.
func (v *Version) Shapes() (intent, result reflect.Type) { return v.intent, v.result }

// Explained tells whether approvers are shown more of a version than its intent.
func (v *Version) Explained() bool { return v.explained }

// Newest tells whether v is its kind's newest version.
func (v *Version) Newest() bool { return v.newest }
