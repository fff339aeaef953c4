package tlog

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// An Origin is the name of one of a deployment's logs, the first line of its checkpoints.
type Origin struct {
	Name       string   // of the deployment's logs, as in its manifest
	Deployment [16]byte // the first half of its id
	Range      uint16
	Generation uint32 // from FirstGeneration on; one more after a recovery, or with other witnesses
}

// FirstGeneration is the generation of a range's first log. It has no leaf that adopts another.
const FirstGeneration = 1

// String is NAME/DEPLOYMENT/RANGE/GENERATION: the deployment in lower-case hex, numbers in decimal.
func (o Origin) String() string { return fmt.Sprintf("%s/%d", o.Logs(), o.Generation) }

// Logs is the beginning of the origins of all generations of a range: NAME/DEPLOYMENT/RANGE.
func (o Origin) Logs() string { return fmt.Sprintf("%s/%x/%d", o.Name, o.Deployment, o.Range) }

// ParseOrigin reads an origin in exactly the form of String.
func ParseOrigin(s string) (Origin, error) {
	o := Origin{Name: s}
	var last [3]string
	for i := range last {
		at := strings.LastIndexByte(o.Name, '/')
		if at < 0 || !ValidName(s) {
			return Origin{}, errNoOrigin
		}
		o.Name, last[i] = o.Name[:at], o.Name[at+1:]
	}
	generation, err1 := strconv.ParseUint(last[0], 10, 32)
	in, err2 := strconv.ParseUint(last[1], 10, 16)
	deployment, err3 := hex.DecodeString(last[2])
	if errors.Join(err1, err2, err3) != nil || len(deployment) != len(o.Deployment) || generation < FirstGeneration || !ValidName(o.Name) {
		return Origin{}, errNoOrigin
	}
	o.Deployment, o.Range, o.Generation = [16]byte(deployment), uint16(in), uint32(generation)
	if o.String() != s {
		return Origin{}, errNoOrigin
	}
	return o, nil
}

var errNoOrigin = errors.New("tlog: an origin is NAME/DEPLOYMENT/RANGE/GENERATION")
