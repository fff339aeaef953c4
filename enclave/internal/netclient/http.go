package netclient

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Field is one line of a request's head: printable ASCII, no space around it.
// A value may be a secret, so it is bytes that the caller can wipe.
type Field struct {
	Name  string
	Value []byte
}

// A Request is one request, over a connection of its own.
type Request struct {
	Method string // GET or POST
	URL    string // https; http only to loopback and where the Client allows it
	// Fields go out as they are, after ours. Those that frame the message or
	// manage the connection are ours alone.
	Fields []Field
	Body   []byte        // POST only
	Wait   time.Duration // the deadline of it all; 0 is DefaultWait
}

// A Response is a whole answer of any status, a redirect included.
type Response struct {
	Status int // 200 to 599
	Body   []byte
	fields []field // in their order
}

type field struct{ name, value string } // the name in lower case

// Field returns the value of the field with a name, in whatever case. Where it is missing
// or there twice, ok is false.
func (r *Response) Field(name string) (value string, ok bool) {
	name = strings.ToLower(name)
	for _, f := range r.fields {
		if f.name == name && ok {
			return "", false
		} else if f.name == name {
			value, ok = f.value, true
		}
	}
	return value, ok
}

// ours are the fields that a caller may not set.
var ours = []string{"accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection",
	"te", "trailer", "transfer-encoding", "upgrade"}

// requestFields are the fields of a request for JSON. Some providers answer nobody
// without a name.
func requestFields() []Field {
	return []Field{{"Accept", []byte("application/json")}, {"User-Agent", []byte("cloister")}}
}

// Exchange sends one request and reads one answer. An answer of any status is
// no error. Errors are *Error.
func (c *Client) Exchange(ctx context.Context, r Request) (*Response, error) {
	to, err := parseURL(r.URL)
	if err != nil {
		return nil, err
	}
	if !to.secure && !(c.cfg.Loopback && IsLoopback(to.host)) {
		return nil, fail(Refused, "the URL must begin with https://")
	}
	out, err := r.encode(to)
	if err != nil {
		return nil, err
	}
	defer clear(out) // it may hold a client's secret

	l, err := c.open(ctx, to, r.Wait)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if to.secure {
		if err := c.secure(l, to.host, "http/1.1"); err != nil {
			return nil, err
		}
	}
	if _, err := l.Write(out); err != nil {
		return nil, l.explain(Away, "the connection ended while the request was sent", err)
	}
	answer, err := readResponse(l)
	if err != nil {
		return nil, l.explain(Away, "the connection ended before the answer was whole", err)
	}
	return answer, nil
}

// encode is the request as it goes out. Nothing else in it can end a line. It is made in
// one piece, so that there is no other copy of a secret.
func (r *Request) encode(to endpoint) ([]byte, error) {
	if r.Method != "GET" && r.Method != "POST" {
		return nil, fail(Refused, "the method must be GET or POST")
	}
	if r.Method == "GET" && len(r.Body) > 0 || len(r.Body) > MaxBody {
		return nil, fail(Refused, "the request's body is too large or has no place")
	}
	size := 0
	for _, f := range r.Fields {
		size += len(f.Name) + len(f.Value) + len(": \r\n")
		switch {
		case size > MaxFields:
			return nil, fail(Refused, "the request's fields are too long")
		case !isToken(f.Name) || slices.Contains(ours, strings.ToLower(f.Name)):
			return nil, fail(Refused, "the request has a field that is not allowed")
		case !visible(f.Value) || len(bytes.TrimSpace(f.Value)) != len(f.Value):
			return nil, fail(Refused, "the request has a field with characters that are not allowed")
		}
	}
	head := r.Method + " " + to.target + " HTTP/1.1\r\nHost: " + to.authority() + "\r\nConnection: close\r\nAccept-Encoding: identity\r\n"
	if r.Method == "POST" {
		head += "Content-Length: " + strconv.Itoa(len(r.Body)) + "\r\n"
	}
	out := make([]byte, 0, len(head)+size+len("\r\n")+len(r.Body))
	out = append(out, head...)
	for _, f := range r.Fields {
		out = append(append(append(append(out, f.Name...), ": "...), f.Value...), "\r\n"...)
	}
	return append(append(out, "\r\n"...), r.Body...), nil
}

// readResponse reads one answer. It takes less than RFC 9112 allows: lines end in CR LF;
// one Content-Length or chunks tell the body, never the end of the connection; chunks
// have neither extensions nor trailers; nothing is compressed; nothing stands behind it.
func readResponse(from io.Reader) (*Response, error) {
	in := &reader{in: bufio.NewReaderSize(from, 4<<10), headBytesLeft: MaxHead}
	for range maxInterim + 1 {
		a, old, err := in.head()
		if err != nil {
			return nil, err
		}
		if a.Status == 101 {
			return nil, fail(Garbled, "the answer changes the protocol")
		}
		if a.Status < 200 {
			continue
		}
		if a.Body, err = in.body(a, old); err != nil {
			return nil, err
		}
		// What comes later is never read. What is here already shows that the other
		// side and we do not agree where the answer ends.
		if in.in.Buffered() > 0 {
			return nil, fail(Garbled, "there is more behind the answer")
		}
		return a, nil
	}
	return nil, fail(Garbled, "too many interim answers")
}

// A reader takes an answer apart. Its errors are *Error, or the connection's.
type reader struct {
	in            *bufio.Reader
	headBytesLeft int // bytes that heads may still have
	buf           []byte
}

// line reads one line of at most most bytes, ending included, and returns it without the
// ending.
func (r *reader) line(most int) (string, error) {
	b := r.buf[:0]
	defer func() { r.buf = b }()
	for {
		c, err := r.in.ReadByte()
		switch {
		case err != nil:
			return "", unexpectedEOF(err)
		case len(b) == most:
			return "", fail(TooLarge, "the answer has a line or head that is too long")
		case len(b) > 0 && b[len(b)-1] == '\r':
			if c != '\n' {
				return "", fail(Garbled, "the answer has a stray carriage return")
			}
			return string(b[:len(b)-1]), nil
		case c < ' ' && c != '\t' && c != '\r' || c == 0x7f:
			return "", fail(Garbled, "the answer has a control character")
		}
		b = append(b, c)
	}
}

// head reads a status line and fields; old tells that the server speaks 1.0.
func (r *reader) head() (a *Response, old bool, err error) {
	l, err := r.headLine()
	if err != nil {
		return nil, false, err
	}
	// HTTP/1.1 200 OK; the reason may be empty, the space before it may not miss.
	if len(l) < len("HTTP/1.1 200 ") || l[:7] != "HTTP/1." || l[7] != '1' && l[7] != '0' || l[8] != ' ' || l[12] != ' ' || !isNumber(l[9:12]) {
		return nil, false, fail(Garbled, "the answer has no status line")
	}
	old = l[7] == '0'
	a = &Response{}
	a.Status, _ = strconv.Atoi(l[9:12])
	if a.Status < 100 || a.Status > 599 {
		return nil, false, fail(Garbled, "the answer has a status that there is not")
	}
	for {
		if l, err = r.headLine(); err != nil {
			return nil, false, err
		}
		if l == "" {
			return a, old, nil
		}
		// A line that begins with a space would go on with the one before: no token does.
		name, value, ok := strings.Cut(l, ":")
		if !ok || !isToken(name) {
			return nil, false, fail(Garbled, "the answer has a malformed field")
		}
		if len(a.fields) == maxInHead {
			return nil, false, fail(TooLarge, "the answer has too many fields")
		}
		a.fields = append(a.fields, field{strings.ToLower(name), strings.Trim(value, " \t")})
	}
}

func (r *reader) headLine() (string, error) {
	l, err := r.line(r.headBytesLeft)
	r.headBytesLeft -= len(l) + len("\r\n")
	return l, err
}

// body reads what the head announces.
func (r *reader) body(a *Response, old bool) ([]byte, error) {
	var length, coding string
	lengths, codings := 0, 0
	for _, f := range a.fields {
		switch f.name {
		case "content-length":
			length, lengths = f.value, lengths+1
		case "transfer-encoding":
			coding, codings = f.value, codings+1
		case "content-encoding":
			if !strings.EqualFold(f.value, "identity") {
				return nil, fail(Garbled, "the answer is compressed, which was not asked for")
			}
		}
	}
	if lengths+codings > 1 {
		return nil, fail(Garbled, "the answer tells its length twice")
	}
	n := 0
	if lengths == 1 {
		var err error
		if n, err = contentLength(length); err != nil {
			return nil, err
		}
	}
	switch {
	case codings == 1 && (old || a.Status == 204 || a.Status == 304 || !strings.EqualFold(coding, "chunked")):
		return nil, fail(Garbled, "the answer has a transfer coding that is not allowed")
	case a.Status == 304: // its length is that of what is not sent
		return nil, nil
	case a.Status == 204 && n > 0:
		return nil, fail(Garbled, "the answer has a body where there is none")
	case a.Status == 204:
		return nil, nil
	case codings == 1:
		return r.chunks()
	case lengths == 0:
		return nil, fail(Garbled, "the answer does not tell its length")
	case n > MaxBody:
		return nil, fail(TooLarge, "the answer's body is too large")
	}
	return r.read(nil, n)
}

// contentLength reads decimal digits. More than nine count as beyond the bound.
func contentLength(s string) (int, error) {
	if !isNumber(s) {
		return 0, fail(Garbled, "the answer has a malformed length")
	}
	if len(s) > 9 {
		return MaxBody + 1, nil
	}
	return strconv.Atoi(s)
}

func (r *reader) chunks() ([]byte, error) {
	var body []byte
	for {
		l, err := r.line(maxSizeLine)
		if err != nil {
			return nil, err
		}
		// At most eight digits, so that it cannot overflow; no sign, extension or space.
		n, err := strconv.ParseUint(l, 16, 32)
		switch {
		case err != nil:
			return nil, fail(Garbled, "the answer has a malformed chunk")
		case n > uint64(MaxBody-len(body)):
			return nil, fail(TooLarge, "the answer's body is too large")
		}
		if n > 0 {
			if body, err = r.read(body, int(n)); err != nil {
				return nil, err
			}
		}
		// An empty line follows, behind the last chunk too: no trailer.
		if _, err = r.line(len("\r\n")); KindOf(err) == TooLarge {
			return nil, fail(Garbled, "the answer has a malformed chunk or a trailer")
		} else if err != nil {
			return nil, err
		}
		if n == 0 {
			return body, nil
		}
	}
}

// read appends n bytes to b. It makes room as they come, not as announced.
func (r *reader) read(b []byte, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, 4<<10)
		b = slices.Grow(b, step)
		got, err := io.ReadFull(r.in, b[len(b):len(b)+step])
		if err != nil {
			return nil, unexpectedEOF(err)
		}
		b, n = b[:len(b)+got], n-got
	}
	return b, nil
}

// unexpectedEOF makes the end of a stream an error in any case.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
