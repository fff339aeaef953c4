// Package commandline is the form that Cloister's programs share: a command before its flags, help on standard
// output with status 0, wrong use told in one line on standard error with status 2, and a version.
package commandline

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
)

// Release is the release that this source becomes. Until it is tagged the name ends in -dev.
const Release = "0.7-dev"

// A Program is what the help of a whole program shows.
type Program struct {
	Name     string // as it is called
	About    string // what it is, in one or a few lines
	Commands []Command
	Notes    string // what stands below the commands; may be empty
}

// A Command is one line of a program's help.
type Command struct{ Name, About string }

// Answer writes the help or the version if that is what args ask for, and tells whether it did. A bare "help COMMAND" is
// COMMAND's own help: Answer leaves that to the caller, with the arguments that ask the command for it.
func (p *Program) Answer(args []string, stdout io.Writer) (rest []string, done bool) {
	if len(args) == 0 {
		return args, false
	}
	switch args[0] {
	case "version", "-version", "--version":
		fmt.Fprintf(stdout, "%s %s (%s)\n", p.Name, Release, runtime.Version())
		return nil, true
	case "help":
		if len(args) > 1 {
			return []string{args[1], "-help"}, false
		}
		p.Help(stdout)
		return nil, true
	case "-h", "-help", "--help":
		p.Help(stdout)
		return nil, true
	}
	return args, false
}

// Help writes what the program is and its commands.
func (p *Program) Help(w io.Writer) {
	fmt.Fprintf(w, "%s\n\nusage: %s COMMAND [flags] [arguments]\n\ncommands:\n", p.About, p.Name)
	width := len("version")
	for _, c := range p.Commands {
		width = max(width, len(c.Name))
	}
	for _, c := range append(p.Commands[:len(p.Commands):len(p.Commands)], Command{"version", "print the version"}, Command{"help", "print this, or the help of a command"}) {
		fmt.Fprintf(w, "  %-*s  %s\n", width, c.Name, c.About)
	}
	fmt.Fprintf(w, "\n%s COMMAND -h tells a command's flags.\n", p.Name)
	if p.Notes != "" {
		fmt.Fprintf(w, "\n%s", p.Notes)
	}
}

// Unknown is the error for a command that there is not.
func (p *Program) Unknown(name string) error {
	if strings.HasPrefix(name, "-") {
		return fmt.Errorf("want a command before the flags; %s help lists them", p.Name)
	}
	return fmt.Errorf("there is no command %q; %s help lists them", name, p.Name)
}

// ExitUsage is the exit status of a program that was called wrongly.
const ExitUsage = 2

// Misuse writes an error about the command line to stderr, in one line that begins with the program's name, and returns
// ExitUsage. For flag.ErrHelp, after which the help is written already, it writes nothing and returns 0.
func (p *Program) Misuse(err error, stderr io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
	return ExitUsage
}

// NewFlags makes the flags of a command, still to be declared. Its Usage writes usage and the flags to stdout. env gives the
// environment variable of a flag, and is nil where flags have none.
func NewFlags(name, usage string, stdout io.Writer, env func(flag string) string) *flag.FlagSet {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard) // an error says all, and is told by whoever gets it
	set.Usage = func() {
		fmt.Fprint(stdout, usage)
		writeFlags(stdout, set, env)
	}
	return set
}

// Parse parses a command's flags, which NewFlags made. Asked for help it writes that and returns flag.ErrHelp; any other error is
// one line that says where help is.
func Parse(set *flag.FlagSet, args []string) error {
	help := set.Usage
	set.Usage = func() {}
	err := set.Parse(args)
	set.Usage = help
	switch {
	case errors.Is(err, flag.ErrHelp):
		help()
		return flag.ErrHelp
	case err != nil:
		return Wrong(set, err)
	}
	return nil
}

// Wrong adds to an error about a command's flags or arguments where its help is.
func Wrong(set *flag.FlagSet, err error) error {
	return fmt.Errorf("%w (%s -h tells how)", err, set.Name())
}

// unset are the defaults that say nothing.
var unset = []string{"", "0", "0s", "false"}

// writeFlags lists flags, each with its variable, its default and what it says.
func writeFlags(w io.Writer, set *flag.FlagSet, env func(flag string) string) {
	heading := "flags:\n"
	set.VisitAll(func(f *flag.Flag) {
		fmt.Fprint(w, heading)
		heading = ""
		value, about := flag.UnquoteUsage(f)
		if value != "" {
			value = " " + value
		}
		var notes []string
		if env != nil {
			notes = append(notes, env(f.Name))
		}
		if !slices.Contains(unset, f.DefValue) {
			notes = append(notes, "default "+f.DefValue)
		}
		note := ""
		if len(notes) > 0 {
			note = " (" + strings.Join(notes, ", ") + ")"
		}
		fmt.Fprintf(w, "  -%s%s%s\n        %s\n", f.Name, value, note, about)
	})
}
