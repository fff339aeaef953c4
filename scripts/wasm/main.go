// Command wasm builds the verifier for browsers into the folder from which the host embeds it: attestation/wasm compiled to
// WebAssembly and compressed, and the toolchain's script that starts it. It prints the SHA-256 of the uncompressed file,
// which the dashboard's page shows too. The same source and toolchain give the same bytes everywhere.
//
//	go run ./scripts/wasm [FOLDER]
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const folder = "host/dashboard/verifier"

func main() {
	to := folder
	if len(os.Args) > 1 {
		to = os.Args[1]
	}
	if err := run(to); err != nil {
		fmt.Fprintln(os.Stderr, "wasm:", err)
		os.Exit(1)
	}
}

func run(to string) error {
	goTool := cmp.Or(os.Getenv("GO"), "go")
	scratch, err := os.MkdirTemp("", "wasm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	out := filepath.Join(scratch, "verifier.wasm")
	build := exec.Command(goTool, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", out, "./attestation/wasm")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOWASM=", "GOEXPERIMENT=", "GOFLAGS=", "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the verifier: %w", err)
	}
	verifier, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	root, err := exec.Command(goTool, "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("asking for GOROOT: %w", err)
	}
	starter, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(verifier); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for name, b := range map[string][]byte{"verifier.wasm.gz": packed.Bytes(), "wasm_exec.js": starter} {
		// Another build may be reading.
		if err := os.WriteFile(filepath.Join(to, "."+name), b, 0o644); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(to, "."+name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	fmt.Printf("verifier.wasm: sha256 %x, %d bytes, %d compressed\n", sha256.Sum256(verifier), len(verifier), packed.Len())
	return nil
}
