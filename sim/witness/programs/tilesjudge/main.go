// Command tilesjudge reads a log by its tiles as filippo.io/torchwood does: a second opinion on ours, in tests.
//
//	tilesjudge PREFIX <POLICY
//
// It verifies the checkpoint by the policy, which names the log, reads every entry, each proven under the checkpoint, and
// prints how many there are and the SHA-256 of all of them behind each other.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	if err := judge(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "tilesjudge:", err)
		os.Exit(1)
	}
}

func judge(ctx context.Context, prefix string) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	policy, err := torchwood.ParsePolicy(text)
	if err != nil {
		return err
	}
	fetcher, err := torchwood.NewTileFetcher(prefix)
	if err != nil {
		return err
	}
	note, err := fetcher.ReadEndpoint(ctx, "checkpoint")
	if err != nil {
		return err
	}
	checkpoint, _, err := torchwood.VerifyCheckpoint(note, policy)
	if err != nil {
		return err
	}
	client, err := torchwood.NewClient(fetcher)
	if err != nil {
		return err
	}
	count, all := 0, sha256.New()
	for _, entry := range client.AllEntries(ctx, tlog.Tree{N: checkpoint.N, Hash: checkpoint.Hash}, 0) {
		count++
		all.Write(entry)
	}
	if err := client.Err(); err != nil {
		return err
	}
	_, err = fmt.Printf("%d %x\n", count, all.Sum(nil))
	return err
}
