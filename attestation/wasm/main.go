//go:build js && wasm

// Command wasm is the verifier for browsers and Node: package checks, compiled to
// WebAssembly, and beside it the warnings about policies, what an editor of policies asks, what approvers are shown, and the encryption
// of what is imported and exported. It defines five functions,
//
//	cloisterVerify(question: string): string
//	cloisterLint(organization: string): string
//	cloisterDecode(question: string): string
//	cloisterPolicy(question: string): string
//	cloisterBundle(question: string): string
//
// and then sets cloisterVerifyReady. cloisterVerify takes the JSON of a checks.Question and returns that of
// a checks.Report. cloisterLint takes that of a lint.Organization and returns {"warnings": [lint.Warning…]}
// or {"error": why}. cloisterDecode takes that of a decode.Question and returns that of a decode.Answer or
// {"error": why}, cloisterPolicy likewise an editor.Question and an editor.Answer, and cloisterBundle a transfer.Question and a
// transfer.Answer. The command uses no network, clock or storage. Go does not erase the secrets of cloisterBundle: run it in a worker
// that ends with the answer.
package main

import (
	"encoding/json"
	"errors"
	"syscall/js"

	"cloister/attestation/checks"
	"cloister/attestation/transfer"
	"cloister/enclave/decode"
	"cloister/enclave/editor"
	"cloister/enclave/lint"
)

// answer defines a function that takes the JSON of a question and returns that of its answer, or {"error": why}.
func answer[Q, A any, P interface {
	*Q
	Answer() (A, error)
}](name, want, broken string) {
	js.Global().Set(name, js.FuncOf(func(_ js.Value, args []js.Value) (out any) {
		defer func() { // without a reply the page would wait for ever
			if recover() != nil {
				out = errorText(broken)
			}
		}()
		q := new(Q)
		if len(args) != 1 || args[0].Type() != js.TypeString || json.Unmarshal([]byte(args[0].String()), q) != nil {
			return errorText(want)
		}
		a, err := P(q).Answer()
		if err != nil {
			return errorText(err.Error())
		}
		b, err := json.Marshal(a)
		if err != nil {
			return errorText(err.Error())
		}
		return string(b)
	}))
}

func errorText(why string) string {
	b, _ := json.Marshal(map[string]string{"error": why}) // a text
	return string(b)
}

func main() {
	js.Global().Set("cloisterVerify", js.FuncOf(func(_ js.Value, args []js.Value) (out any) {
		defer func() { // without a reply the page would wait for ever
			if recover() != nil {
				out = `{"verified":false,"reason":"the verifier broke off","checks":[],"facts":[],"statements":[]}`
			}
		}()
		if len(args) != 1 || args[0].Type() != js.TypeString {
			return string(checks.Ask(nil))
		}
		return string(checks.Ask([]byte(args[0].String())))
	}))
	js.Global().Set("cloisterLint", js.FuncOf(func(_ js.Value, args []js.Value) any {
		var answer struct {
			Warnings []lint.Warning `json:"warnings"`
			Error    string         `json:"error,omitempty"`
		}
		var o lint.Organization
		err := errors.New("want an organization as get_organization tells it, in JSON")
		if len(args) == 1 && args[0].Type() == js.TypeString {
			err = json.Unmarshal([]byte(args[0].String()), &o)
		}
		if err == nil {
			answer.Warnings, err = o.Warnings()
		}
		if err != nil {
			answer.Error = err.Error()
		}
		b, _ := json.Marshal(answer) // texts and numbers
		return string(b)
	}))
	answer[decode.Question, *decode.Answer]("cloisterDecode", "want an activity and records, in JSON", "the decoder broke off")
	answer[editor.Question, *editor.Answer]("cloisterPolicy", "want a question about policies, in JSON", "the reader of policies broke off")
	answer[transfer.Question, *transfer.Answer]("cloisterBundle", "want a question about an import or export, in JSON", "the encryption broke off")
	js.Global().Set("cloisterVerifyReady", true)
	select {}
}
