package main

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
)

// longestLine is how much of a line is remembered, in bytes.
const longestLine = 4096

// lastLine passes on what a process writes to its standard error, and remembers the last line: a process that cannot go on
// says there why.
type lastLine struct {
	to io.Writer

	mu         sync.Mutex
	muted      bool
	line, part []byte
}

// Write implements io.Writer.
func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	for line := range bytes.Lines(p) {
		l.part = append(l.part, line[:min(len(line), longestLine-min(longestLine, len(l.part)))]...)
		if line[len(line)-1] == '\n' {
			if text := bytes.TrimSpace(l.part); len(text) > 0 {
				l.line = bytes.Clone(text)
			}
			l.part = l.part[:0]
		}
	}
	muted := l.muted
	l.mu.Unlock()
	if muted {
		return len(p), nil
	}
	return l.to.Write(p)
}

// mute ends the passing on: what a process says while it is being stopped is no news, such as that the other one is gone.
func (l *lastLine) mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muted = true
}

// reason is what the last line says that went wrong; empty if that is a log line of something else.
func (l *lastLine) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !bytes.HasPrefix(l.line, []byte("{")) {
		return string(l.line)
	}
	var logged struct{ Level, Msg, Reason, Error string }
	if json.Unmarshal(l.line, &logged) != nil || logged.Level != "ERROR" {
		return ""
	}
	if logged.Reason+logged.Error != "" {
		logged.Msg += ": "
	}
	return logged.Msg + logged.Reason + logged.Error
}
