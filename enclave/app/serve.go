package app

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"cloister/enclave/internal/strictjson"
	"cloister/shared/tvc"
)

// Bounds of what the host may have open at once, and of how long it may take to ask one thing.
const (
	maxConnections = 256
	patience       = 5 * time.Minute
)

// Serve answers the host until ctx ends or the listener fails.
func (e *Enclave) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	slots := make(chan struct{}, maxConnections)
	for {
		c, err := l.Accept()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				e.serve(c)
			}()
		default:
			_ = c.Close()
		}
	}
}

// errUnread is said where the rest of a frame is still in the connection, which is of no use then.
var errUnread = errors.New("connection ends")

func (e *Enclave) serve(c net.Conn) {
	defer c.Close()
	for {
		kind, length, err := tvc.ReadHead(c)
		if err != nil {
			return
		}
		answered := make(chan struct{})
		go func() {
			select {
			case <-e.cfg.After(patience):
				_ = c.Close()
			case <-answered:
			}
		}()
		var reply []byte
		var body []byte
		if kind == tvc.GiveProgram {
			err = e.giveProgram(c, length)
		} else if body, err = tvc.ReadBody(c, length); err != nil {
			err = errors.Join(err, errUnread)
		} else if kind == tvc.Connect {
			close(answered)
			e.connect(c, body)
			return
		} else {
			reply, err = e.answer(kind, body)
		}
		unread := errors.Is(err, errUnread)
		if writeAnswer(c, reply, err) != nil || unread {
			close(answered)
			return
		}
		close(answered)
	}
}

// writeAnswer answers. What an error says is for the host, who knows all of it: no secret is in errors here.
func writeAnswer(w io.Writer, reply []byte, err error) error {
	if err != nil {
		return tvc.WriteFrame(w, tvc.Refused, []byte(err.Error()))
	}
	return tvc.WriteFrame(w, tvc.Done, reply)
}

func (e *Enclave) answer(kind byte, body []byte) ([]byte, error) {
	switch kind {
	case tvc.AskStatus:
		return e.status()
	case tvc.GiveManifest:
		return nil, e.giveManifest(body)
	case tvc.AskSetup:
		return e.attest(tvc.StateShares)
	case tvc.GiveShare:
		if err := e.giveShare(body); err != nil {
			return nil, err
		}
		return e.status()
	case tvc.AskProof:
		return e.attest(tvc.StateRunning, tvc.StateEnded)
	case tvc.AskOutput:
		return e.readOutput()
	}
	return nil, errors.New("no such question")
}

// connect joins the host to a port of the program that its manifest bridges, and to no other.
func (e *Enclave) connect(c net.Conn, body []byte) {
	port, err := e.bridgedPort(body)
	if err == nil {
		var program net.Conn
		if program, err = e.cfg.Machine.Dial(port); err == nil {
			defer program.Close()
			if writeAnswer(c, nil, nil) == nil {
				tvc.Join(c, program)
			}
			return
		}
		err = errors.New("the program does not listen on port " + strconv.Itoa(int(port)))
	}
	_ = writeAnswer(c, nil, err)
}

func (e *Enclave) bridgedPort(body []byte) (uint16, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != tvc.StateRunning {
		return 0, errState
	}
	if len(body) == 2 {
		for _, b := range e.envelope.Manifest.Pivot.BridgeConfig {
			if port := binary.BigEndian.Uint16(body); port == b.Port {
				return port, nil
			}
		}
	}
	return 0, errors.New("no port that the manifest bridges")
}

// What a program may ask: bounds, and how far the time of a proof may be from the module's.
const (
	maxAsked = 64 << 10
	skew     = 5 * time.Minute
)

// answerProgram answers the program until its connection ends. Its keys stay here.
func (e *Enclave) answerProgram(c io.ReadWriter) {
	for {
		kind, length, err := tvc.ReadHead(c)
		if err != nil || length > maxAsked {
			return
		}
		body, err := tvc.ReadBody(c, length)
		if err != nil {
			return
		}
		reply, err := e.askedByProgram(kind, body)
		if writeAnswer(c, reply, err) != nil {
			return
		}
	}
}

func (e *Enclave) askedByProgram(kind byte, body []byte) ([]byte, error) {
	switch kind {
	case tvc.Prove:
		return e.prove(body)
	case tvc.Certify:
		return tvc.Sign(e.quorum.Signing, body)
	case tvc.Unbox:
		return tvc.Open(e.quorum.Encryption, body)
	case tvc.AskTime:
		return binary.BigEndian.AppendUint64(nil, uint64(e.cfg.Device.Now().UnixMilli())), nil
	}
	return nil, errors.New("no such question")
}

// prove signs the text of an app proof with the live key: a JSON object whose timestampMs is the module's time, so that its
// readers need not believe the program in that.
func (e *Enclave) prove(text []byte) ([]byte, error) {
	var payload struct {
		TimestampMs string `json:"timestampMs" rule:"required"`
	}
	if strictjson.Decode(text, &payload, strictjson.AllowUnknown()) != nil {
		return nil, errPayload
	}
	at, err := strconv.ParseInt(payload.TimestampMs, 10, 64)
	if err != nil {
		return nil, errPayload
	}
	if off := e.cfg.Device.Now().UnixMilli() - at; off > skew.Milliseconds() || off < -skew.Milliseconds() {
		return nil, errors.New("timestampMs is not the security module's time")
	}
	signature, err := tvc.Sign(e.live.Signing, text)
	if err != nil {
		return nil, err
	}
	return slices.Concat(e.live.Public[:], signature), nil
}

var errPayload = errors.New("an app proof is a JSON object with timestampMs, a decimal text")

// readOutput is the end of what the program wrote.
func (e *Enclave) readOutput() ([]byte, error) {
	e.mu.Lock()
	debug := e.envelope.Manifest.Pivot.DebugMode
	e.mu.Unlock()
	if !debug {
		return nil, errors.New("output is shown in debug mode alone")
	}
	return e.output.last(), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const maxTail = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - maxTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

func (t *tail) last() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte{}, t.kept...)
}
