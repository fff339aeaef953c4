package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"cloister/attestation"
	"cloister/enclave/lint"
	"cloister/shared/commandline"
)

const policiesUsage = `usage: cloister-verify policies FILE

FILE is a get_organization reply; - for stdin. Prints what is likely wrong with its policies, a line each.

`

func runPolicies(args []string, in *input, stdout, stderr io.Writer) int {
	f := commandline.NewFlags("cloister-verify policies", policiesUsage, stdout, nil)
	err := commandline.Parse(f, args)
	if err == nil && f.NArg() != 1 {
		err = commandline.Wrong(f, errors.New("want one FILE"))
	}
	if err != nil {
		return program.Misuse(err, stderr)
	}
	warnings, err := advice(in, f.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, "cloister-verify:", err)
		return exitUsage
	}
	for _, w := range warnings {
		where := w.PolicyName
		if w.Clause != "" {
			where = fmt.Sprintf("%s, %s at byte %d", w.PolicyName, w.Clause, w.Position)
		}
		fmt.Fprintf(stdout, "%s: %s: %s\n", where, w.Code, w.Message)
	}
	return exitVerified
}

func advice(in *input, name string) ([]lint.Warning, error) {
	raw, err := in.read(name, attestation.MaxReply)
	if err != nil {
		return nil, err
	}
	var reply struct {
		Organization *lint.Organization `json:"organizationData"`
	}
	if err := json.Unmarshal(raw, &reply); err != nil || reply.Organization == nil {
		return nil, fmt.Errorf("%s: no reply of get_organization", name)
	}
	warnings, err := reply.Organization.Warnings()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return warnings, nil
}
