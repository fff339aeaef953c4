package query

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var sending = []*Query{
	fetchQuery("get_nonces", fetchNonces, answerNonces),
	fetchQuery("get_send_transaction_status", fetchSendStatus, answerSendStatus),
}

// noncesRequest asks for the nonce of the next transaction of any account.
type noncesRequest struct {
	Head
	Address         string          `json:"address" rule:"required"`
	CAIP2           wallet.EthChain `json:"caip2" rule:"required"`
	Nonce           *bool           `json:"nonce"`
	GasStationNonce *bool           `json:"gasStationNonce"`
}

// fetchNonces asks for the nonce that the node would give to one more transaction:
// those that wait are counted.
// That of the gas station is the account's count of executions, those in blocks alone.
func fetchNonces(in *noncesRequest, s *sources) (*nonces, error) {
	address, err := wallet.EthAddress("address", in.Address)
	if err != nil {
		return nil, err
	}
	n := &nonces{next: activity.IsOn(in.Nonce), execution: activity.IsOn(in.GasStationNonce)}
	need := &activity.ChainNeed{Chain: string(in.CAIP2)}
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
	next, execution bool // what was asked for
	known           *activity.ChainKnown
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

// sendStatusRequest names a sent transaction by the id that sending it answered,
// which is its activity's.
type sendStatusRequest struct {
	Head
	SendTransactionStatusID string `json:"sendTransactionStatusId" rule:"required"`
}

type sent struct {
	*org.Transaction
	activity.Standing
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
	standing, err := s.Standing(org.SendRef{Seq: e.Seq})
	if err == nil && standing.State == org.SendUnknown {
		err = fault.New(fault.Unavailable, "the host does not know how far the transaction has come: try again")
	}
	return &sent{t, standing}, err
}

// txStatuses names states. FAILED is also a transaction that failed in a block: its
// hash tells that it is there.
var txStatuses = map[org.SendState]string{
	org.SendWaiting: "INITIALIZED", org.SendAccepted: "BROADCASTING", org.SendIncluded: "INCLUDED",
	org.SendReverted: "FAILED", org.SendRefused: "FAILED", org.SendExpired: "FAILED", org.SendReplaced: "FAILED",
}

// answerSendStatus tells the transaction's name, which the enclave knows, and its
// state, as the host reports it.
func answerSendStatus(_ *View, s *sent) ([]byte, error) {
	status := txStatuses[s.State]
	dst := text(nil, `{"txStatus":`, status)
	key := `,"solana":{"signature":`
	if strings.HasPrefix(s.Chain, "eip155:") {
		key = `,"eth":{"txHash":`
	}
	dst = append(text(dst, key, s.Name), '}')
	if status == "FAILED" {
		said := cmp.Or(s.Text, "the transaction failed")
		dst = text(dst, `,"txError":`, said)
		dst = text(dst, `,"error":{"message":`, said)
		if s.State == org.SendReverted && strings.HasPrefix(s.Chain, "eip155:") {
			chain := appendRevert([]byte(`[`), said, s.Revert)
			dst = append(append(append(dst, `,"revertChain":`...), chain...), `]`...)
			dst = append(append(append(dst, `,"eth":{"revertChain":`...), chain...), `]}`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, '}'), nil
}

// Selectors of Solidity's own errors: Error(string) and Panic(uint256).
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

// revertText is the argument of an Error(string).
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
