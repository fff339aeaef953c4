//go:build js && wasm

// Command wasm is the verifier for browsers and Node: package checks, compiled to
// WebAssembly, and beside it the warnings about policies and what approvers are shown. It defines three functions,
//
//	cloisterVerify(question: string): string
//	cloisterLint(organization: string): string
//	cloisterDecode(question: string): string
//
// and then sets cloisterVerifyReady. cloisterVerify takes the JSON of a checks.Question and returns that of
// a checks.Report. cloisterLint takes that of a lint.Organization and returns {"warnings": [lint.Warning…]}
// or {"error": why}. cloisterDecode takes that of a decode.Question and returns that of a decode.Answer or
// {"error": why}. The command uses no network, clock or storage.
package main

import (
	"encoding/json"
	"errors"
	"syscall/js"

	"cloister/attestation/checks"
	"cloister/enclave/decode"
	"cloister/enclave/lint"
)

func answerDecode(args []js.Value) (*decode.Answer, error) {
	var q decode.Question
	if len(args) != 1 || args[0].Type() != js.TypeString || json.Unmarshal([]byte(args[0].String()), &q) != nil {
		return nil, errors.New("want an activity and records, in JSON")
	}
	return q.Answer()
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
	js.Global().Set("cloisterDecode", js.FuncOf(func(_ js.Value, args []js.Value) (out any) {
		defer func() {
			if recover() != nil {
				out = `{"error":"the decoder broke off"}`
			}
		}()
		answer, err := answerDecode(args)
		var b []byte
		if err == nil {
			b, err = json.Marshal(answer)
		}
		if err != nil {
			b, _ = json.Marshal(map[string]string{"error": err.Error()}) // a text
		}
		return string(b)
	}))
	js.Global().Set("cloisterVerifyReady", true)
	select {}
}
