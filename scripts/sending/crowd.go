package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// crowd sends n transactions at once, and kills host and enclave while they are on their way. What got no answer goes again
// with the same bytes, and so does what was refused because the deployment is busy. It gives the ids of the statuses; none for one
// that was refused by the limit that the refusal names so.
func (w *world) crowd(n int, limit string, params func(i int) object) ([]string, error) {
	var replied atomic.Int32
	ids, errs := make([]string, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		body := w.body(sendType, w.params(params(i)))
		all.Go(func() {
			for range 600 {
				var m object
				var status int
				status, m, errs[i] = w.post("/public/v1/submit/eth_send_transaction", body)
				ids[i] = text(m, "activity", "result", "ethSendTransactionResultV2", "sendTransactionStatusId")
				busy := status == http.StatusTooManyRequests && !strings.Contains(text(m, "message"), limit) // it is to come again
				if errs[i] == nil && status < 500 && !busy {
					if ids[i] == "" && status != http.StatusTooManyRequests {
						errs[i] = fmt.Errorf("status %d: %v", status, m)
					}
					replied.Add(1)
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	for replied.Load() < 10 {
		time.Sleep(time.Millisecond)
	}
	if err := w.KillHost(); err != nil { // the whole of it ends then
		return nil, err
	}
	if err := w.start(); err != nil {
		return nil, err
	}
	for replied.Load() < 20 {
		time.Sleep(time.Millisecond)
	}
	w.Kill()
	if err := w.start(); err != nil {
		return nil, err
	}
	all.Wait()
	return ids, errors.Join(errs...)
}

// quota puts the organization on a plan, whose signatures 1,000 requests use up at once: as many transactions are on the chain as
// the plan has signatures, by the account's nonce and by their decoded senders.
func (w *world) quota() error {
	const n, fit = 1000, 200
	plans := filepath.Join(w.Dir, "plans.json")
	document, err := json.Marshal(object{"version": 1, "default": "p", "plans": []object{{"id": "p", "name": "p", "signaturesPerMonth": fit}}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(plans, document, 0o600); err != nil {
		return err
	}
	put := exec.Command(w.HostBinary(), "put-plans", "-admission-key", filepath.Join(w.Dir, "sim", "admission-key"), "-plans", plans, "-api-url", w.URL())
	if out, err := put.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	used := func() (string, error) {
		m, err := w.query("get_billing", object{})
		return text(m, "usage", "signatures"), err
	}
	if s, err := used(); err != nil || s != "0" {
		return fmt.Errorf("%s signatures are counted at the plan's start: %w", s, err)
	}
	before, err := w.node.count(w.account, "latest")
	if err != nil {
		return err
	}
	ids, err := w.crowd(n, "allotted quota", func(i int) object {
		return object{"calls": []object{{"to": nowhere, "data": fmt.Sprintf("0x%08x", i)}}}
	})
	if err != nil {
		return err
	}
	through := map[string]bool{} // by their data
	for i, id := range ids {
		if id == "" {
			continue
		}
		tx, err := w.confirm(id)
		if err != nil {
			return err
		}
		if data := fmt.Sprintf("0x%08x", i); tx.Input != data || !strings.EqualFold(tx.From, w.account) {
			return fmt.Errorf("%w: %+v, want %s", errDiffers, tx, data)
		}
		through[tx.Input] = true
	}
	after, err := w.node.count(w.account, "latest")
	if err != nil {
		return err
	}
	counted, err := used()
	if err != nil {
		return err
	}
	if len(through) != fit || after-before != fit || counted != strconv.Itoa(fit) {
		return fmt.Errorf("%w: %d of %d are on the chain, %d by the nonce, %s are counted, of %d", errDiffers, len(through), n, after-before, counted, fit)
	}
	return nil
}

// window fills a window by 1,000 requests at once, with host and enclave killed in the middle: what fits goes through, and
// no more, as the node decodes it.
func (w *world) window() error {
	const n, fit, gas, fee = 1000, 25, 400_000, 3_000_000_000 // three dollars each
	usage := func() (uint64, error) {
		m, err := w.query("get_gas_usage", object{})
		if err != nil {
			return 0, err
		}
		r, ok := new(big.Rat).SetString(text(m, "usageUsd"))
		if !ok {
			return 0, fmt.Errorf("usage %v", m)
		}
		r.Mul(r, big.NewRat(1e6, 1))
		return r.Num().Uint64(), nil
	}
	before, err := usage()
	if err != nil {
		return err
	}
	limit := before + fit*3_000_000 + 2_999_999
	if err := w.limit(fmt.Sprintf("%d.%06d", limit/1_000_000, limit%1_000_000)); err != nil {
		return err
	}
	ids, err := w.crowd(n, "orgWindowLimitUsd", func(i int) object {
		return object{"from": w.poor, "sponsor": true, "calls": []object{{"to": nowhere, "data": fmt.Sprintf("0x%08x", i)}},
			"gasLimit": fmt.Sprint(gas), "maxFeePerGas": fmt.Sprint(fee), "maxPriorityFeePerGas": "1"}
	})
	if err != nil {
		return err
	}
	sum, through := new(big.Int), 0
	for _, id := range ids {
		if id == "" {
			continue
		}
		through++
		tx, err := w.confirm(id)
		if err != nil {
			return err
		}
		g, err := quantity(tx.Gas)
		if err != nil {
			return err
		}
		f, err := quantity(tx.MaxFeePerGas)
		if err != nil {
			return err
		}
		sum.Add(sum, new(big.Int).Mul(new(big.Int).SetUint64(g), new(big.Int).SetUint64(f)))
	}
	sum.Mul(sum, big.NewInt(coinPrice)).Div(sum, big.NewInt(1e18))
	after, err := usage()
	if err != nil {
		return err
	}
	if through != fit || after-before != sum.Uint64() || sum.Uint64() != fit*3_000_000 {
		return fmt.Errorf("%w: %d of %d went through, want %d; they can cost %v, %d are counted", errDiffers, through, n, fit, sum, after-before)
	}
	return nil
}
