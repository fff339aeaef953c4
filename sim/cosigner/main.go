// Command cosigner is an example of a program in an enclave of its own: a co-signer that signs transfers up to a limit to
// addresses of a list, and nothing else. Limit and addresses are its arguments, so they stand in the manifest that its
// operators have approved; its key is the app's quorum key, which nobody holds; and every signature comes with an app proof,
// by which a client knows, offline, that this very program under these very rules has made it.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/shared/program"
)

// A transfer is what a client asks a co-signature for.
type transfer struct {
	To     string `json:"to"`
	Amount uint64 `json:"amount,string"`
	Nonce  uint64 `json:"nonce,string"` // of the account: a transfer is meant once
}

// message is what is signed: one spelling for one transfer.
func (t transfer) message() string {
	return fmt.Sprintf("cosigner transfer 1\n%s\n%d\n%d\n", t.To, t.Amount, t.Nonce)
}

// A cosigned is the answer.
type cosigned struct {
	Signature string         `json:"signature"` // r ‖ s by the quorum key over SHA-256 of the message, hex
	AppProof  *program.Proof `json:"appProof"`
}

// A policy is what the program signs.
type policy struct {
	limit   uint64
	allowed []string
}

func (p policy) check(t transfer) error {
	switch {
	case !slices.Contains(p.allowed, t.To):
		return fmt.Errorf("%.80q is not on the list", t.To)
	case t.Amount == 0 || t.Amount > p.limit:
		return fmt.Errorf("%d is not 1 to %d", t.Amount, p.limit)
	}
	return nil
}

const maxBody = 4 << 10

func main() {
	port := flag.Uint("port", 3000, "port to listen on")
	limit := flag.Uint64("limit", 0, "the largest amount")
	to := flag.String("to", "", "addresses that may receive, with commas between them")
	flag.Parse()
	p, enclave := policy{*limit, strings.Split(*to, ",")}, program.Open()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := enclave.Now(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /cosign", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var t transfer
		if err == nil {
			err = json.Unmarshal(body, &t)
		}
		if err != nil {
			http.Error(w, "no transfer", http.StatusBadRequest)
			return
		}
		if err := p.check(t); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		answer, err := cosign(enclave, p, t)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	server := http.Server{Addr: "127.0.0.1:" + strconv.Itoa(int(*port)), Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// cosign signs, and proves what was signed under which rules.
func cosign(enclave *program.Enclave, p policy, t transfer) (*cosigned, error) {
	signature, err := enclave.Certify([]byte(t.message()))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(t.message()))
	proof, err := enclave.Prove(map[string]any{
		"type": "EXAMPLE_COSIGNATURE", "transferSha256": hex.EncodeToString(sum[:]), "limit": strconv.FormatUint(p.limit, 10), "signature": hex.EncodeToString(signature),
	})
	if err != nil {
		return nil, err
	}
	return &cosigned{hex.EncodeToString(signature), proof}, nil
}
