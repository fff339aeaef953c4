//go:build js && wasm

// Command wasm is the verifier for browsers and Node: package checks, compiled to
// WebAssembly. It leaves one function behind,
//
//	cloisterVerify(question: string): string
//
// whose argument and result are the JSON of checks.Question and checks.Report,
// and then sets cloisterVerifyReady. It asks for nothing: no network, no clock, no
// storage.
package main

import (
	"syscall/js"

	"cloister/attestation/checks"
)

func main() {
	js.Global().Set("cloisterVerify", js.FuncOf(func(_ js.Value, args []js.Value) (out any) {
		defer func() { // a page whose verifier is gone would look like one that is still at it
			if recover() != nil {
				out = `{"verified":false,"reason":"the verifier broke off","checks":[],"facts":[],"statements":[]}`
			}
		}()
		if len(args) != 1 || args[0].Type() != js.TypeString {
			return string(checks.Ask(nil))
		}
		return string(checks.Ask([]byte(args[0].String())))
	}))
	js.Global().Set("cloisterVerifyReady", true)
	select {}
}
