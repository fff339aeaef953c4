package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"cloister/host/backup"
	"cloister/host/logcheck"
	"cloister/host/store/open"
	"cloister/shared/commandline"
	"cloister/shared/wire"
)

const backupUsage = `usage: cloister-host backup -to FOLDER|s3://BUCKET/PREFIX [flags]
       cloister-host backup verify -from BACKUP [flags]

Writes everything that the store holds, as of one moment, into a new folder below
FOLDER or PREFIX and prints its name. Enclave and hosts go on meanwhile. It is
ciphertext, or what the host sees anyway.

verify reads a backup to the end: every hash, that every organization's entries
are there without a gap and lead to the root of their tree, that batches are
numbered without a gap, and that the headers of each range's log are a chain whose
leaves lead to the log's newest checkpoints. Cosignatures are counted by the policy
of -witnesses, else by that in the backup, which the host wrote. The log's own
signature is verified with -log-key. It needs no enclave.

A restored backup is an old state, and needs the root secret of its deployment:
operators' shares, or a running enclave. Neither is in it.

Credentials for s3:// come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
AWS_SESSION_TOKEN.

`

const restoreUsage = `usage: cloister-host restore -from BACKUP -store STORE [flags]

Fills an empty store, SQLite or PostgreSQL, whichever the backup comes from, all
of it or nothing. Refused are a backup that is damaged or not whole, of another
deployment than -deployment or the store's own, or of a later release, and a store
that holds anything.

What is restored is an old state. End every enclave and host of the deployment
first: nobody else can tell that one goes on with the newer state beside this one.
The next boot takes the store under a higher epoch; its proofs say that it is
fresh since boot, and nothing about before. The README tells what is lost.

`

// backupFlags are those of backup, backup verify, restore and drill.
type backupFlags struct {
	Config           // of which -store and -data-dir
	to, from         string
	deployment       string
	witnesses        string
	logKeys          list
	endpoint, region string
	roots            string
	plain, pathStyle bool
}

// set makes the flags that a command has.
func (f *backupFlags) set(w *world, name, usage string, has ...string) *flag.FlagSet {
	f.Config = *storeConfig(w)
	set := newFlags(w, name, usage)
	for _, h := range has {
		switch h {
		case "to":
			set.StringVar(&f.to, "to", w.env("CLOISTER_BACKUP_TO"), "`WHERE` backups go, each into a folder of its own (CLOISTER_BACKUP_TO)")
		case "from":
			set.StringVar(&f.from, "from", "", "the `BACKUP`, as backup printed it")
			set.StringVar(&f.deployment, "deployment", w.env("CLOISTER_DEPLOYMENT"), "refuse backups of another deployment than this `HASH`, which /boot/v1/status tells (CLOISTER_DEPLOYMENT)")
		case "witnesses":
			set.StringVar(&f.witnesses, "witnesses", "", "`FILE` with the policy of the manifest's member log: which witnesses must have cosigned")
			set.Var(&f.logKeys, "log-key", "`VKEY` of a log, as boot status names it: its signature is verified (repeatable)")
		case "store":
			f.addStoreFlag(set)
			set.StringVar(&f.DataDir, "data-dir", f.DataDir, "the host's data `FOLDER`, as in serve (CLOISTER_DATA_DIR)")
		}
	}
	set.StringVar(&f.endpoint, "s3-endpoint", w.env("CLOISTER_S3_ENDPOINT"), "`HOST[:PORT]` of the S3-compatible store; empty: Amazon's (CLOISTER_S3_ENDPOINT)")
	set.StringVar(&f.region, "s3-region", w.env("CLOISTER_S3_REGION"), "its `REGION`; empty: asked for (CLOISTER_S3_REGION)")
	set.StringVar(&f.roots, "s3-roots", w.env("CLOISTER_S3_ROOTS"), "`FILE` of PEM certificates that its own must lead to; empty: the system's (CLOISTER_S3_ROOTS)")
	set.BoolVar(&f.plain, "s3-plain", w.env("CLOISTER_S3_PLAIN") == "true", "speak HTTP to it, without TLS (CLOISTER_S3_PLAIN=true)")
	set.BoolVar(&f.pathStyle, "s3-path-style", w.env("CLOISTER_S3_PATH_STYLE") == "true", "put the bucket into the path, as most servers but Amazon's want (CLOISTER_S3_PATH_STYLE=true)")
	return set
}

// storeConfig is a Config of -store and -data-dir alone, from the environment.
func storeConfig(w *world) *Config {
	return &Config{Store: w.env(envName("store")), DataDir: cmp.Or(w.env(envName("data-dir")), "cloister-data")}
}

// addStoreFlag is -store of commands besides serve. Its default is not the environment's: help would print the password in it.
func (c *Config) addStoreFlag(set *flag.FlagSet) {
	set.Func("store", "the host's `STORE`, as in serve; one with a password better by the environment (CLOISTER_STORE)", func(v string) error {
		c.Store = v
		return nil
	})
}

// parseOnlyFlags is parseFlags for commands without arguments.
func parseOnlyFlags(set *flag.FlagSet, args []string) error {
	err := parseFlags(set, args)
	if err == nil && set.NArg() > 0 {
		err = usageError(commandline.Wrong(set, fmt.Errorf("unexpected argument %q", set.Arg(0))))
	}
	return err
}

func (f *backupFlags) folder(w *world, location string) (backup.Folder, error) {
	as := backup.S3{Endpoint: f.endpoint, Region: f.region, Plain: f.plain, PathStyle: f.pathStyle,
		AccessKey: w.env("AWS_ACCESS_KEY_ID"), SecretKey: w.env("AWS_SECRET_ACCESS_KEY"), SessionToken: w.env("AWS_SESSION_TOKEN")}
	if f.roots != "" {
		pem, err := os.ReadFile(f.roots)
		if err != nil {
			return nil, err
		}
		as.Roots = x509.NewCertPool()
		if !as.Roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate", f.roots)
		}
	}
	folder, err := backup.OpenFolder(location, as)
	if errors.Is(err, backup.ErrLocation) {
		err = fmt.Errorf("%w: %q: %w", errUsage, location, err)
	}
	return folder, err
}

// expectedDeployment is the deployment that -deployment names; nil: any.
func (f *backupFlags) expectedDeployment() (*wire.Hash, error) {
	if f.deployment == "" {
		return nil, nil
	}
	b, err := hex.DecodeString(f.deployment)
	if err != nil || len(b) != len(wire.Hash{}) {
		return nil, fmt.Errorf("%w: -deployment: want 64 hexadecimal digits", errUsage)
	}
	h := wire.Hash(b)
	return &h, nil
}

// backups is the command backup.
func backups(ctx context.Context, w *world, args []string) error {
	if len(args) > 0 && args[0] == "verify" {
		return verifyBackup(ctx, w, args[1:])
	}
	f := new(backupFlags)
	set := f.set(w, "backup", backupUsage, "to", "store")
	if err := parseOnlyFlags(set, args); err != nil {
		return err
	}
	if f.to == "" {
		return fmt.Errorf("%w: want -to (see -help)", errUsage)
	}
	token, err := w.token()
	if err != nil {
		return err
	}
	started := w.now()
	to, err := f.folder(w, backup.Under(f.to, started.UTC().Format("20060102T150405Z-")+token))
	if err != nil {
		return err
	}
	st, err := open.OpenExisting(ctx, cmp.Or(f.Store, f.file()))
	if err != nil {
		return err
	}
	sum, err := backup.Write(ctx, st, to, commandline.Release, uint64(started.UnixMilli()))
	if err = errors.Join(err, st.Close()); err != nil {
		return err
	}
	printSummary(w, "written", to, sum, w.now().Sub(started))
	return nil
}

// printSummary prints what a backup holds, a line for each thing.
func printSummary(w *world, done string, from backup.Folder, s *backup.Summary, took time.Duration) {
	fmt.Fprintf(w.stdout, "%s %s in %.2f s\n", done, from, took.Seconds())
	for _, line := range [][2]string{
		{"deployment", hex.EncodeToString(s.Header.Deployment[:])},
		{"release", s.Header.Release},
		{"created", time.UnixMilli(int64(s.Header.CreatedMs)).UTC().Format(time.RFC3339)},
		{"boot epoch", strconv.FormatUint(s.Epoch, 10)},
		{"organizations", strconv.FormatUint(s.Organizations, 10)},
		{"entries", strconv.FormatUint(s.Entries, 10)},
		{"batches", strconv.FormatUint(s.Batches, 10)},
		{"sends", fmt.Sprintf("%d, %d have not ended", s.Sends, s.Unsent)},
		{"bytes", fmt.Sprintf("%d in %d chunks", s.Bytes, s.Chunks)},
	} {
		fmt.Fprintf(w.stdout, "  %-14s %s\n", line[0], line[1])
	}
}

// verifyBackup is the command backup verify.
func verifyBackup(ctx context.Context, w *world, args []string) error {
	f := new(backupFlags)
	set := f.set(w, "backup verify", backupUsage, "from", "witnesses")
	if err := parseOnlyFlags(set, args); err != nil {
		return err
	}
	from, expected, err := f.source(w)
	if err != nil {
		return err
	}
	by, err := f.trust()
	if err != nil {
		return err
	}
	started := w.now()
	sum, err := backup.Verify(ctx, from, expected, open.Schema(), by)
	if err != nil {
		return err
	}
	printSummary(w, "whole:", from, sum, w.now().Sub(started))
	for i := range sum.Logs {
		l := &sum.Logs[i]
		fmt.Fprintf(w.stdout, "  %-14s %s\n", fmt.Sprintf("log %d", l.Range), logText(l))
	}
	return nil
}

// trust is what -witnesses and -log-key name.
func (f *backupFlags) trust() (by backup.Trust, err error) {
	policy := []byte(nil)
	if f.witnesses != "" {
		if policy, err = bootFile(f.witnesses); err != nil {
			return by, err
		}
		if len(policy) == 0 {
			return by, fmt.Errorf("%s: it is empty", f.witnesses)
		}
	}
	if by, err = logcheck.ParseTrust(string(policy), f.logKeys); err != nil {
		return by, fmt.Errorf("%w: -witnesses, -log-key: %w", errUsage, err)
	}
	return by, nil
}

// logText says what a verified log was checked against.
func logText(l *backup.LogSummary) string {
	text := fmt.Sprintf("generation %d, %d leaves", l.Generation, l.Leaves)
	switch {
	case l.Origin == "":
		return text + "; no checkpoint of it to check them against"
	case l.Signed == 0:
		return text + "; its checkpoint is too old to check them against"
	}
	text += fmt.Sprintf("; those of the log's checkpoint of %d", l.Signed)
	if l.Verified {
		text += ", signed by its key"
	} else {
		text += ", whose signature was not verified (-log-key)"
	}
	if l.Cosigned == 0 {
		return text + "; no checkpoint with a quorum"
	}
	policy := "the policy in the backup"
	if l.Given {
		policy = "-witnesses"
	}
	return text + fmt.Sprintf("; %d of %d witnesses have cosigned the first %d, by %s", l.Cosignatures, l.Witnesses, l.Cosigned, policy)
}

func (f *backupFlags) source(w *world) (backup.Folder, *wire.Hash, error) {
	if f.from == "" {
		return nil, nil, fmt.Errorf("%w: want -from (see -help)", errUsage)
	}
	expected, err := f.expectedDeployment()
	if err != nil {
		return nil, nil, err
	}
	from, err := f.folder(w, strings.TrimRight(f.from, "/"))
	return from, expected, err
}

// restore is the command.
func restore(ctx context.Context, w *world, args []string) error {
	f := new(backupFlags)
	set := f.set(w, "restore", restoreUsage, "from", "store")
	if err := parseOnlyFlags(set, args); err != nil {
		return err
	}
	from, expected, err := f.source(w)
	if err != nil {
		return err
	}
	// Before a store is made of a name that may be as wrong as the backup's.
	if err := backup.Check(ctx, from, expected, open.Schema()); err != nil {
		return err
	}
	name, err := f.storeName()
	if err != nil {
		return err
	}
	started := w.now()
	st, err := open.Open(ctx, name)
	if err != nil {
		return err
	}
	sum, err := backup.Restore(ctx, from, st, expected)
	if err = errors.Join(err, st.Close()); err != nil {
		return err
	}
	printSummary(w, "restored", from, sum, w.now().Sub(started))
	if sum.Unsent > 0 {
		fmt.Fprintf(w.stdout, "\n%d sends had not ended then: hosts go on with them, so webhooks and transactions that went out since go out again.\n", sum.Unsent)
	}
	return nil
}
