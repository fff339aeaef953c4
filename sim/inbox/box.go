package inbox

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of what is kept and taken.
const (
	MaxMessages = 500      // kept; the oldest goes first
	MaxKept     = 32 << 20 // bytes of all kept messages
	MaxMail     = 1 << 20  // bytes of one mail as it is sent
	MaxBody     = 1 << 16  // bytes of one text message's form
)

// Kinds of messages.
const (
	KindMail = "mail"
	KindText = "text"
)

// A Message is one that arrived. A mail to several recipients is a message for each.
type Message struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"` // KindMail or KindText
	From       string    `json:"from"`
	To         string    `json:"to"`      // one address or number
	Subject    string    `json:"subject"` // of mail
	Text       string    `json:"text"`    // UTF-8
	HTML       string    `json:"html"`    // of mail; as it was sent, so not to be trusted
	ReceivedAt time.Time `json:"receivedAt"`
	Code       string    `json:"code,omitempty"` // the passcode in it, if one is found
}

func (m *Message) size() int {
	return len(m.From) + len(m.To) + len(m.Subject) + len(m.Text) + len(m.HTML) + 256
}

// A Box holds the newest messages. Its methods may be called from anywhere.
type Box struct {
	now func() time.Time

	mu   sync.Mutex
	kept []Message // oldest first
	size int
	sent map[string]string // idempotency keys of text messages and their ids
	keys []string          // those keys, oldest first
}

// NewBox makes an empty box. now is the clock.
func NewBox(now func() time.Time) *Box {
	return &Box{now: now, sent: map[string]string{}}
}

// Add puts a message in, with an id and the time of arrival, and answers the id.
func (b *Box) Add(m Message) string { return b.AddOnce("", m) }

// AddOnce is Add for a sender who may try again: the second message with the same
// key is the first one, as long as the key is remembered. An empty key is none.
func (b *Box) AddOnce(key string, m Message) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id, ok := b.sent[key]; ok && key != "" {
		return id
	}
	m.ID, m.ReceivedAt = rand.Text(), b.now().UTC()
	m.Code = m.code()
	b.kept = append(b.kept, m)
	b.size += m.size()
	for len(b.kept) > MaxMessages || b.size > MaxKept {
		b.size -= b.kept[0].size()
		b.kept = slices.Delete(b.kept, 0, 1)
	}
	if key != "" {
		b.sent[key] = m.ID
		if b.keys = append(b.keys, key); len(b.keys) > MaxMessages {
			delete(b.sent, b.keys[0])
			b.keys = slices.Delete(b.keys, 0, 1)
		}
	}
	return m.ID
}

// Messages are those to somebody, or all when to is empty, newest first.
func (b *Box) Messages(to string) []Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := []Message{}
	for _, m := range slices.Backward(b.kept) {
		if to == "" || strings.EqualFold(m.To, to) {
			found = append(found, m)
		}
	}
	return found
}

// Message is the one with an id.
func (b *Box) Message(id string) (Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.kept, func(m Message) bool { return m.ID == id })
	if i < 0 {
		return Message{}, false
	}
	return b.kept[i], true
}

// Clear takes all messages out. What was sent once stays sent.
func (b *Box) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.size = nil, 0
}
