package query

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var sending = []*Query{
	fetchQuery("get_nonces", fetchNonces, answerNonces),
	fetchQuery("get_send_transaction_status", fetchSendStatus, answerSendStatus),
}

// noncesRequest requests the nonce of the next transaction of any account.
type noncesRequest struct {
	Head
	Address         string          `json:"address" rule:"required"`
	CAIP2           wallet.EthChain `json:"caip2" rule:"required"`
	Nonce           *bool           `json:"nonce"`
	GasStationNonce *bool           `json:"gasStationNonce"`
}

// fetchNonces fetches the nonce that the node would give to one more transaction:
// pending ones are counted.
// The gas station's nonce is the account's count of executions, only those in blocks.
func fetchNonces(in *noncesRequest, s *sources) (*nonces, error) {
	address, err := wallet.EthAddress("address", in.Address)
	if err != nil {
		return nil, err
	}
	n := &nonces{next: activity.IsOn(in.Nonce), execution: activity.IsOn(in.GasStationNonce)}
	need := &activity.ChainQuery{Chain: string(in.CAIP2)}
	if n.next {
		need.Nonces, need.From = true, address[:]
	}
	if n.execution {
		need.Account = address[:]
	}
	if n.next || n.execution {
		n.known, err = s.Known(need)
	}
	return n, err
}

type nonces struct {
	next, execution bool // the requested ones
	known           *activity.ChainState
}

func answerNonces(_ *View, n *nonces) ([]byte, error) {
	dst := []byte{'{'}
	if n.next {
		dst = number(dst, `"nonce":`, n.known.Pending)
	}
	if n.execution {
		if n.next {
			dst = append(dst, ',')
		}
		dst = number(dst, `"gasStationNonce":`, n.known.Executions)
	}
	return append(dst, '}'), nil
}

// sendStatusRequest names a sent transaction by the id in the result of sending it,
// which is its activity's.
type sendStatusRequest struct {
	Head
	SendTransactionStatusID string `json:"sendTransactionStatusId" rule:"required"`
}

type sent struct {
	*org.Transaction
	activity.Standing
	expiresMs uint64
	outdone   bool // a block includes another send of the organization with its number
}

func fetchSendStatus(in *sendStatusRequest, s *sources) (*sent, error) {
	const what = "send transaction status"
	e, err := findNamed(what, "sendTransactionStatusId", in.SendTransactionStatusID, s.Activity)
	if err != nil {
		return nil, err
	}
	if len(e.Sends) == 0 || e.Sends[0].Kind != org.SendTransaction {
		return nil, fault.New(fault.NotFound, "%s not found: %s", what, e.Activity)
	}
	t, err := org.DecodeTransaction(e.Sends[0].Content)
	if err != nil {
		return nil, err
	}
	x := &sent{Transaction: t, expiresMs: e.Sends[0].ExpiresMs}
	switch x.Standing, err = s.Standing(org.SendRef{Seq: e.Seq}); {
	case err != nil:
		return nil, err
	case x.State == org.SendUnknown:
		return nil, fault.New(fault.Unavailable, "the host does not know how far the transaction has come: try again")
	case x.State.IsMissing() && x.isEthereum():
		err = x.findRival(s)
	}
	return x, err
}

func (x *sent) isEthereum() bool { return strings.HasPrefix(x.Chain, "eip155:") }

// findRival looks for another transaction in a block that excludes this one. A delegated execution is excluded only by an execution with
// its number: anyone who has it can have its calls carried out in another transaction. The same terms make the same transaction.
func (x *sent) findRival(s *sources) error {
	chain, err := strconv.ParseUint(strings.TrimPrefix(x.Chain, "eip155:"), 10, 64)
	if err != nil {
		return err
	}
	c, number, account := org.Counter{Of: org.CountNonces}, x.Nonce, x.From
	if len(x.Account) > 0 {
		c.Of, number, account = org.CountExecutions, x.Execution, x.Account
	}
	if len(account) != len(c.Account.Address) {
		return nil
	}
	c.Account = org.Sender{Chain: chain, Address: [20]byte(account)}
	rivals, err := s.Rivals(c, number)
	x.outdone = slices.ContainsFunc(rivals, func(r Rival) bool {
		return r.Name != x.Name && (r.State == org.SendIncluded || r.State == org.SendReverted && c.Of == org.CountNonces)
	})
	return err
}

// txStatuses are the names of states. FAILED is a transaction that failed in a block.
var txStatuses = map[org.SendState]string{
	org.SendWaiting: "INITIALIZED", org.SendAccepted: "BROADCASTING", org.SendIncluded: "INCLUDED",
	org.SendReverted: "FAILED", org.SendRefused: "BROADCASTING", org.SendExpired: "BROADCASTING", org.SendReplaced: "BROADCASTING",
}

// missingTexts say why no block has a transaction, where nodes gave no reason.
var missingTexts = map[org.SendState]string{
	org.SendRefused: "a node refused it", org.SendExpired: "no node took it in time", org.SendReplaced: "another transaction has its nonce",
}

// statusText returns the status of a send and its error. The host can submit a signed transaction at any time: its report that one is refused, expired or
// replaced does not prove that no block has it or will include it. The status is failed if a block has another of the organization's
// sends with its number. Until then the transaction is under way and its error says what excludes it. One that can no longer get
// into a block by its own terms has failed, with an error that says that it may be in one.
func (x *sent) statusText(nowMs uint64) (status, said string) {
	status = txStatuses[x.State]
	switch {
	case x.State == org.SendReverted:
		return status, cmp.Or(x.Text, "the transaction failed") + "; the host's node reports this, and nothing proves it: look it up before you pay again"
	case !x.State.IsMissing():
		return status, ""
	}
	said = cmp.Or(x.Text, missingTexts[x.State])
	const look = "look what has been paid before you pay again"
	until := time.UnixMilli(int64(x.expiresMs)).UTC().Format(time.RFC3339)
	switch expires := wallet.Expires(x.Transaction); {
	case x.outdone:
		return "FAILED", said + "; another transaction with its number is in a block"
	case expires && nowMs >= x.expiresMs:
		return "FAILED", said + "; no block can take it any more, but one may have taken it: " + look
	case len(x.Account) > 0:
		return status, fmt.Sprintf("%s; its calls can be carried out all the same until %s or until others have gasStationNonce %d: to pay again, give gasStationNonce %[3]d", said, until, x.Execution)
	case x.isEthereum():
		return status, fmt.Sprintf("%s; a signed transaction can get into a block all the same until another one has nonce %d: to pay again, give nonce %[2]d", said, x.Nonce)
	case expires:
		return status, fmt.Sprintf("%s; a signed transaction can get into a block all the same until %s: %s", said, until, look)
	}
	return status, said + "; a signed transaction can get into a block all the same until its durable nonce is advanced: " + look
}

// answerSendStatus answers the transaction's name, which the enclave knows, and its
// state, as the host reports it.
func answerSendStatus(v *View, s *sent) ([]byte, error) {
	status, said := s.statusText(v.NowMs)
	dst := text(nil, `{"txStatus":`, status)
	key := `,"solana":{"signature":`
	if s.isEthereum() {
		key = `,"eth":{"txHash":`
	}
	dst = append(text(dst, key, s.Name), '}')
	if said != "" {
		dst = text(dst, `,"txError":`, said)
		dst = text(dst, `,"error":{"message":`, said)
		if s.State == org.SendReverted && s.isEthereum() {
			chain := appendRevert([]byte(`[`), cmp.Or(s.Text, "the transaction failed"), s.Revert)
			dst = append(append(append(dst, `,"revertChain":`...), chain...), `]`...)
			dst = append(append(append(dst, `,"eth":{"revertChain":`...), chain...), `]}`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}'), nil
}

// Selectors of Solidity's built-in errors: Error(string) and Panic(uint256).
const (
	errorSelector = 0x08c379a0
	panicSelector = 0x4e487b71
)

// appendRevert writes a RevertChainEntry of the data that a reverted call returned.
func appendRevert(dst []byte, said string, data []byte) []byte {
	selector := uint32(0)
	if len(data) >= 4 {
		selector = binary.BigEndian.Uint32(data)
	}
	switch message, isText := revertText(data); {
	case len(data) == 0:
		dst = text(dst, `{"errorType":"native","displayMessage":`, said)
		return append(dst, `,"native":{"nativeType":"execution_reverted"}}`...)
	case selector == errorSelector && isText:
		dst = text(dst, `{"errorType":"native","displayMessage":`, message)
		dst = text(dst, `,"native":{"nativeType":"error_string","message":`, message)
		return append(dst, `}}`...)
	case selector == panicSelector && len(data) == 36 && zeros(data[4:28]):
		code := binary.BigEndian.Uint64(data[28:])
		dst = text(dst, `{"errorType":"native","displayMessage":`, "panic: 0x"+strconv.FormatUint(code, 16))
		dst = number(dst, `,"native":{"nativeType":"panic","panicCode":`, code)
		return append(dst, `}}`...)
	}
	dst = text(dst, `{"errorType":"unknown","displayMessage":`, said)
	dst = text(dst, `,"unknown":{"selector":`, "0x"+hex.EncodeToString(data[:min(4, len(data))]))
	dst = text(dst, `,"data":`, "0x"+hex.EncodeToString(data))
	return append(dst, `}}`...)
}

// revertText decodes the argument of an Error(string).
func revertText(data []byte) (string, bool) {
	const head = 4 + 32 + 32
	if len(data) < head || !zeros(data[4:35]) || data[35] != 32 || !zeros(data[36:head-8]) {
		return "", false
	}
	n := binary.BigEndian.Uint64(data[head-8:])
	if n > uint64(len(data)-head) {
		return "", false
	}
	return string(data[head : head+int(n)]), true
}

func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
