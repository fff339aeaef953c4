// Package outage logs faults that go on: when one begins, once a minute while it lasts, and when it is over. A full disk or
// a database that is away would fill the log otherwise, and the disk with it.
package outage

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Every is how long a fault is not logged again.
const Every = time.Minute

// A Log logs faults, each by the name of what fails. Names are words of the program, so that there are few. Many goroutines
// may use it.
type Log struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	faults map[string]*fault
}

type fault struct {
	begun, logged time.Time
	unlogged      int  // failures since then
	open          bool // its end is to be logged
}

// New makes a Log that writes to log.
func New(log *slog.Logger, now func() time.Time) *Log {
	return &Log{log: log, now: now, faults: make(map[string]*fault)}
}

// LogFailure tells that what is named has failed. It is logged unless that was so within Every, with how many failures were not.
func (l *Log) LogFailure(level slog.Level, name, message string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.faults[name]
	if f == nil {
		f = new(fault)
		l.faults[name] = f
	}
	now := l.now()
	if !f.logged.IsZero() && now.Sub(f.logged) < Every {
		f.unlogged++
		return
	}
	if f.unlogged > 0 {
		args = append(args, "unlogged", f.unlogged)
	}
	if !f.open {
		f.begun, f.open = now, true
	}
	f.logged, f.unlogged = now, 0
	l.log.Log(context.Background(), level, message, args...)
}

// LogSuccess tells that what is named works. It is logged if that ends a fault whose beginning was. Else it costs next to nothing.
func (l *Log) LogSuccess(name, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.faults[name]
	if f == nil || !f.open {
		return
	}
	f.open = false
	l.log.Info(message, "of", name, "after", l.now().Sub(f.begun).String())
}
