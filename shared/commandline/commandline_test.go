package commandline_test

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	"cloister/shared/commandline"
)

var program = commandline.Program{Name: "prog", About: "prog does it.", Commands: []commandline.Command{{Name: "run", About: "run it"}}, Notes: "Exit status: 0.\n"}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		args, says string // the first words on standard output
		rest       string
	}{
		{"version", "prog " + commandline.Release + " (go", ""},
		{"--version", "prog " + commandline.Release + " (go", ""},
		{"-version", "prog " + commandline.Release + " (go", ""},
		{"help", "prog does it.\n\nusage: prog COMMAND", ""},
		{"-h", "prog does it.", ""},
		{"--help", "prog does it.", ""},
		{"help run", "", "run -help"},
		{"run -h", "", "run -h"},
		{"-x version", "", "-x version"},
		{"", "", ""},
	} {
		var out bytes.Buffer
		rest, done := program.Answer(strings.Fields(c.args), &out)
		if done != (c.says != "") || !strings.HasPrefix(out.String(), c.says) || done && len(rest) > 0 || !done && (out.Len() > 0 || strings.Join(rest, " ") != c.rest) {
			t.Errorf("%q: %q %v\n%s", c.args, rest, done, &out)
		}
	}
	var out bytes.Buffer
	program.Help(&out)
	for _, line := range []string{"  run      run it\n", "  version  print the version\n", "Exit status: 0.\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, &out)
		}
	}
	if len(program.Commands) != 1 {
		t.Error("Help changed the program")
	}
}

func TestParse(t *testing.T) {
	env := func(flag string) string { return "PROG_" + strings.ToUpper(flag) }
	for _, c := range []struct {
		args, err, says string
		env             func(string) string
	}{
		{args: "-to here", err: ""},
		{args: "-h", err: flag.ErrHelp.Error(), says: "usage: prog run\n\nflags:\n  -n int (default 3)\n        how many\n  -to PLACE\n        the PLACE to go\n"},
		{args: "-help", env: env, err: flag.ErrHelp.Error(), says: "usage: prog run\n\nflags:\n  -n int (PROG_N, default 3)\n        how many\n  -to PLACE (PROG_TO)\n        the PLACE to go\n"},
		{args: "-no", err: "flag provided but not defined: -no (prog run -h tells how)"},
		{args: "-n x", err: `invalid value "x" for flag -n: parse error (prog run -h tells how)`},
	} {
		var out bytes.Buffer
		set := commandline.NewFlags("prog run", "usage: prog run\n\n", &out, c.env)
		set.String("to", "", "the `PLACE` to go")
		set.Int("n", 3, "how many")
		err := commandline.Parse(set, strings.Fields(c.args))
		if (err == nil) != (c.err == "") || err != nil && err.Error() != c.err || out.String() != c.says {
			t.Errorf("%q: %v\n%s", c.args, err, &out)
		}
		if c.says != "" && !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%q: %v is no flag.ErrHelp", c.args, err)
		}
	}
}

func TestUnknown(t *testing.T) {
	for name, want := range map[string]string{"x": `there is no command "x"; prog help lists them`, "-x": "want a command before the flags; prog help lists them"} {
		if err := program.Unknown(name); err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
