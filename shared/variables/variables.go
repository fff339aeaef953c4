// Package variables knows the environment variables of our programs, whose names begin with CLOISTER_. One that is misspelt
// would change nothing, and nobody would hear of it.
package variables

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cloister/shared/spelling"
)

// Prefix is how every variable of ours begins.
const Prefix = "CLOISTER_"

// names lists all of them, a line each: a program hands its environment to those that it starts, so each must know what the
// others read.
//
//go:embed names.txt
var names string

// Names are all variables of ours, those of the host in front.
func Names() (all []string) {
	for line := range strings.Lines(names) {
		if name := strings.TrimSpace(line); name != "" && name[0] != '#' {
			all = append(all, name)
		}
	}
	return all
}

// ofKubernetes are the variables that a pod is given for a service whose name begins with cloister.
var ofKubernetes = regexp.MustCompile(`^CLOISTER_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// CheckEnvironment refuses a variable of ours that there is not, and names the one that is spelt most alike. environ is that
// of os.Environ; values do not come into the error.
func CheckEnvironment(environ []string) error {
	all := Names()
	for _, one := range environ {
		name, _, _ := strings.Cut(one, "=")
		if !strings.HasPrefix(name, Prefix) || slices.Contains(all, name) || ofKubernetes.MatchString(name) {
			continue
		}
		nearest := slices.MinFunc(all, func(a, b string) int { return spelling.Distance(name, a) - spelling.Distance(name, b) })
		return fmt.Errorf("environment: %.100s is no variable of ours; the nearest one is %s", name, nearest)
	}
	return nil
}
