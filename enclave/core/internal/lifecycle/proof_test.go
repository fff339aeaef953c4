package lifecycle_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"cloister/enclave/core/internal/lifecycle"
)

// A document is replaced at the first look after an hour; a module that fails leaves
// the one that there is, and is asked again after a minute.
func TestRenewal(t *testing.T) {
	begun := time.Unix(1_800_000_000, 0)
	made, broken := 0, false
	r := lifecycle.NewRenewal(func(time.Time) ([]byte, error) {
		made++
		if broken {
			return nil, errors.New("module")
		}
		return []byte(strconv.Itoa(made)), nil
	})
	broken = true
	if r.First(begun) == nil {
		t.Fatal("a boot began without a document")
	}
	broken, made = false, 0
	if err := r.First(begun); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at     time.Duration
		broken bool
		want   string
		of     time.Duration
		made   int
	}{
		{0, false, "1", 0, 1},
		{59 * time.Minute, false, "1", 0, 1},
		{60 * time.Minute, false, "2", 60 * time.Minute, 2},
		{61 * time.Minute, false, "2", 60 * time.Minute, 2},
		{121 * time.Minute, true, "2", 60 * time.Minute, 3},
		{121*time.Minute + 59*time.Second, false, "2", 60 * time.Minute, 3},
		{122 * time.Minute, true, "2", 60 * time.Minute, 4},
		{123 * time.Minute, false, "5", 123 * time.Minute, 5},
	} {
		broken = c.broken
		if got, at := r.Current(begun.Add(c.at)); got != c.want || !at.Equal(begun.Add(c.of)) || made != c.made {
			t.Errorf("after %v: document %s of %v, made %d; want %s of %v, %d", c.at, got, at.Sub(begun), made, c.want, c.of, c.made)
		}
	}
}

// Nobody waits for a module that takes its time.
func TestRenewalHoldsNobodyUp(t *testing.T) {
	begun := time.Unix(1_800_000_000, 0)
	asked, answer := make(chan struct{}), make(chan struct{})
	first := true
	r := lifecycle.NewRenewal(func(time.Time) ([]byte, error) {
		if first {
			first = false
			return []byte("old"), nil
		}
		close(asked)
		<-answer
		return []byte("new"), nil
	})
	if err := r.First(begun); err != nil {
		t.Fatal(err)
	}
	later := begun.Add(2 * time.Hour)
	got := make(chan string)
	go func() {
		text, _ := r.Current(later)
		got <- text
	}()
	<-asked
	if text, at := r.Current(later); text != "old" || !at.Equal(begun) {
		t.Errorf("meanwhile: %s of %v", text, at)
	}
	close(answer)
	if text := <-got; text != "new" {
		t.Errorf("who asked got %s", text)
	}
	if text, at := r.Current(later); text != "new" || !at.Equal(later) {
		t.Errorf("afterwards: %s of %v", text, at)
	}
}
