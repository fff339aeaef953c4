package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"cloister/enclave/decode"
	"cloister/shared/commandline"
)

const decodeUsage = `usage: cloister-verify decode [-record FILE]... [-tokens FILE] FILE

Makes what approvers of an activity are shown from the body that was signed, as the enclave does, and compares it with what the
reply shows. FILE is a reply of get_activity, or what the dashboard saves of a waiting activity, which has the records in it;
- for stdin.

  cloister-verify decode -record accounts.json activity.json

`

func runDecode(args []string, in *input, stdout, stderr io.Writer) int {
	var records []string
	var tokens string
	f := commandline.NewFlags("cloister-verify decode", decodeUsage, stdout, nil)
	f.Func("record", "`file` with accounts, wallets, private keys, contract interfaces, users or the address book of the organization: a reply of list_wallet_accounts (with includeWalletDetails), get_wallet_account, list_wallets, list_private_keys, get_private_key, list_smart_contract_interfaces, get_smart_contract_interface, get_user or get_organization_configs (repeatable)", list(&records))
	f.StringVar(&tokens, "tokens", "", "`file` with the operator's list of tokens, or a reply of list_known_tokens")
	err := parse(f, args, func(rest []string) error {
		if len(rest) != 1 {
			return fmt.Errorf("want one FILE")
		}
		return nil
	})
	if err != nil {
		return program.Misuse(err, stderr)
	}
	q, err := readQuestion(in, f.Arg(0), records, tokens)
	if err != nil {
		return verdict(err, stderr)
	}
	answer, err := q.Answer()
	if err != nil {
		return verdict(err, stderr)
	}
	printDocument(stdout, answer)
	if len(answer.Differences) > 0 {
		err = fmt.Errorf("the reply shows something else, or was made with other records, at %s", strings.Join(answer.Differences, ", "))
	}
	return verdict(err, stderr)
}

func readQuestion(in *input, name string, records []string, tokens string) (*decode.Question, error) {
	raw, err := in.read(name, decode.MaxBytes)
	if err != nil {
		return nil, err
	}
	q := new(decode.Question)
	if json.Unmarshal(raw, q) != nil || q.Activity == "" { // in a reply it is an object
		q = &decode.Question{Activity: string(raw)}
	}
	for _, name := range records {
		raw, err := in.read(name, decode.MaxBytes)
		if err != nil {
			return nil, err
		}
		q.Records = append(q.Records, string(raw))
	}
	if tokens != "" {
		raw, err := in.read(tokens, decode.MaxBytes)
		if err != nil {
			return nil, err
		}
		q.Tokens = string(raw)
	}
	return q, nil
}

func printDocument(w io.Writer, a *decode.Answer) {
	d := json.NewDecoder(bytes.NewReader(a.Document)) // of the enclave's own making: it is JSON, in printable ASCII
	printValue(w, d, "", "")
	fmt.Fprintf(w, "\ndigest %s\n", a.Digest)
	switch {
	case !a.Shown:
		fmt.Fprintln(w, "The reply shows nothing to compare: the activity is over.")
	case len(a.Differences) == 0:
		fmt.Fprintln(w, "The reply shows the same. An approval that names this digest counts only if the enclave shows the same.")
	}
}

// printValue prints the next value under a name, indented.
func printValue(w io.Writer, d *json.Decoder, indent, name string) {
	token, err := d.Token()
	if err != nil {
		return
	}
	open, nested := token.(json.Delim)
	if !nested {
		fmt.Fprintf(w, "%s%s: %v\n", indent, name, token)
		return
	}
	if name != "" {
		fmt.Fprintf(w, "%s%s\n", indent, name)
		indent += "  "
	}
	for i := 0; d.More(); i++ {
		child := fmt.Sprint(i)
		if open == '{' {
			key, _ := d.Token()
			child = fmt.Sprint(key)
		}
		printValue(w, d, indent, child)
	}
	_, _ = d.Token()
}
