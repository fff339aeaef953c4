package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// headSize is the size of a frame's head: length of the payload (4 bytes, big-endian), id (8), kind (1). The payload
// follows. The asker chooses ids, in rising order on a connection; an answer repeats the id of its question.
const headSize = 4 + 8 + 1

// A Side is one end of a connection.
type Side uint8

// The two sides. The host dials every connection; the enclave accepts it.
const (
	SideHost    Side = 1
	SideEnclave Side = 2
)

const (
	maxHello  = 64
	maxSmall  = 1 << 10  // questions and answers of a few fixed fields
	maxLookup = 64 << 10 // questions that carry lists of ids, hashes or names
	maxChain  = MaxChainData + maxSmall
	maxTips   = MaxTipsPage * 80
	maxKeys   = MaxKeysPage * (MaxWrapped + 64)
	maxStates = MaxStates * (MaxChainText + MaxRevert + 64)
	maxCounts = MaxCounts * (128 + 9*MaxTimes + 64)
	// A token's longest fields are its symbol, its name and the URL of its logo.
	maxReading = MaxTokens*(3*MaxChainText+256) + MaxStates*MaxChainText
)

// limits has the sizes that Questions allows at one side of one connection, indexed by
// kind: 0 for a kind that is not allowed, otherwise one more than the largest payload.
type limits struct {
	questionsIn, questionsOut [256]int
	answersIn, answersOut     [256]int
	answerTo                  [256]Kind
}

func limitsOf(side Side, role Role) *limits {
	l := new(limits)
	l.answersIn[KindFailed], l.answersOut[KindFailed] = maxSmall+1, maxSmall+1
	for _, q := range Questions {
		if q.Role != role {
			continue
		}
		l.answerTo[q.Kind] = q.Answer
		if q.AskedBy == side {
			l.questionsOut[q.Kind] = q.Most + 1
			l.answersIn[q.Answer] = max(l.answersIn[q.Answer], q.MostAnswer+1)
		} else {
			l.questionsIn[q.Kind] = q.Most + 1
			l.answersOut[q.Answer] = max(l.answersOut[q.Answer], q.MostAnswer+1)
		}
	}
	return l
}

func appendHead(b []byte, length int, id uint64, kind Kind) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	return append(binary.BigEndian.AppendUint64(b, id), byte(kind))
}

func parseHead(h []byte) (length int, id uint64, kind Kind) {
	return int(binary.BigEndian.Uint32(h)), binary.BigEndian.Uint64(h[4:]), Kind(h[12])
}

// WriteHello writes the frame that opens a connection, with Version as the version. The host
// calls it once, before NewConn.
func WriteHello(c net.Conn, h Hello, deadline time.Time) error {
	h.Version = Version
	payload, err := Marshal(h)
	if err != nil {
		return err
	}
	if err := c.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("writing hello: %w", err)
	}
	if _, err := c.Write(append(appendHead(nil, len(payload), 0, KindHello), payload...)); err != nil {
		return fmt.Errorf("writing hello: %w", err)
	}
	return c.SetWriteDeadline(time.Time{})
}

// ErrHello means that the peer sent something other than a valid hello. A connection that
// was lost before its hello was complete has another error.
var ErrHello = errors.New("bad hello")

// ReadHello reads the frame that opens a connection and nothing after it. The
// enclave calls it once, before NewConn, and closes the connection on error.
func ReadHello(c net.Conn, deadline time.Time) (Hello, error) {
	if err := c.SetReadDeadline(deadline); err != nil {
		return Hello{}, fmt.Errorf("reading hello: %w", err)
	}
	var head [headSize]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return Hello{}, fmt.Errorf("reading hello: %w", err)
	}
	length, id, kind := parseHead(head[:])
	if kind != KindHello || id != 0 || length > maxHello {
		return Hello{}, ErrHello
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(c, payload); err != nil {
		return Hello{}, fmt.Errorf("reading hello: %w", err)
	}
	var h Hello
	if err := Unmarshal(payload, &h); err != nil {
		return Hello{}, fmt.Errorf("%w: %w", ErrHello, err)
	}
	if h.Version != Version {
		return Hello{}, fmt.Errorf("%w: version %d, want %d", ErrHello, h.Version, Version)
	}
	if h.Role < RoleCalls || h.Role > Roles {
		return Hello{}, fmt.Errorf("%w: role %d", ErrHello, h.Role)
	}
	if (h.Ticket != nil) != (h.Role == RoleStream) {
		return Hello{}, fmt.Errorf("%w: a ticket and a role that do not belong together", ErrHello)
	}
	return h, c.SetReadDeadline(time.Time{})
}
