package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"

	"cloister/attestation/request"
	"cloister/enclave/internal/history"
	"cloister/shared/commandline"
)

// fetch writes the history that an export_history has allowed, page after page. What it is told it does not judge.
func fetch(args []string, out, problems io.Writer) int {
	f := commandline.NewFlags("cloister-replay fetch", "usage: cloister-replay fetch -credentials FILE -activity ID [flags] > FILE\n\n", out, nil)
	credentials := f.String("credentials", "", "`file` with organizationId, rootApiKey and apiUrl, as cloister-host request takes it")
	api := f.String("api-url", "", "`URL` of the host, if not the file's")
	activity := f.String("activity", "", "`id` of the export_history")
	err := commandline.Parse(f, args)
	if err == nil && (f.NArg() > 0 || *credentials == "" || *activity == "") {
		err = commandline.Wrong(f, errors.New("want -credentials and -activity"))
	}
	if err != nil {
		return program.Misuse(err, problems)
	}
	if err := fetchInto(out, *credentials, *api, *activity); err != nil {
		fmt.Fprintln(problems, "cloister-replay fetch:", err)
		return exitUnknown
	}
	return exitSame
}

func fetchInto(out io.Writer, credentials, url, activity string) error {
	text, err := os.ReadFile(credentials)
	if err != nil {
		return err
	}
	c, err := request.ParseCredentials(text)
	var key *request.Key
	if err == nil {
		key, err = c.Key()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", credentials, err)
	}
	api := &request.API{URL: cmp.Or(url, c.APIURL), OrganizationID: c.OrganizationID, Key: key}
	if _, err := io.WriteString(out, history.Magic); err != nil {
		return err
	}
	for from := ""; ; {
		var page struct {
			History string `json:"history"`
			Next    string `json:"next"`
		}
		if err := api.Query(context.Background(), "get_history", map[string]string{"activityId": activity, "from": from}, &page); err != nil {
			return err
		}
		b, err := base64.StdEncoding.Strict().DecodeString(page.History)
		if err == nil {
			_, err = out.Write(b)
		}
		if err != nil || page.Next == "" {
			return err
		}
		from = page.Next
	}
}
