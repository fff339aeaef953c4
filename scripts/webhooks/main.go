// Command webhooks lets a simulator, which it starts, tell receivers of many activities: one is well, the others fail, close
// the connection, answer slowly, hang until they are mended. It kills the simulator, host and enclave on the way, and ends
// when every receiver has heard of every activity. What came is written to a file, for the published verifier to judge.
//
//	webhooks -sim bin/cloister-sim -dir DIR -port N -proxy-port N [-store STORE] [-events 10000]
package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloister/scripts/internal/deployment"
)

func main() {
	w := new(world)
	w.Flags()
	flag.StringVar(&w.store, "store", "", "its store")
	events := flag.Int("events", 10_000, "how many to deliver")
	flag.Parse()
	deployment.Main("webhooks", func() error {
		defer w.Kill()
		return w.run(*events)
	})
}

const atOnce = 16

func (w *world) run(events int) error {
	record, err := newRecord(w.Dir)
	if err != nil {
		return err
	}
	defer record.close()
	if err := w.start(); err != nil {
		return err
	}
	if err := w.fetchKeys(); err != nil {
		return err
	}
	var all []*receiver
	for _, m := range manners() {
		r, err := newReceiver(m, w, record)
		if err != nil {
			return err
		}
		defer r.close()
		all = append(all, r)
		if err := w.subscribe(m.name, r.url()); err != nil {
			return err
		}
	}
	begin := time.Now()
	want := map[string]bool{}
	for part, n := range []int{3, 3, 4} { // tenths
		made, err := w.act(events / len(all) * n / 10)
		if err != nil {
			return err
		}
		for _, id := range made {
			want[id] = true
		}
		switch part {
		case 0: // right behind the last reply, many on their way
			err = w.KillHost()
		case 1:
			w.Kill()
		}
		if err == nil && part < 2 {
			err = w.start()
		}
		if err != nil {
			return err
		}
	}
	fmt.Printf("%d activities of %d subscribers, host and enclave killed twice: %.1f s\n", len(want), len(all), time.Since(begin).Seconds())
	for _, r := range all {
		r.mend()
	}
	if err := w.settle(all, want, begin); err != nil {
		return err
	}
	if err := w.NoAlarms(); err != nil {
		return err
	}
	return w.writeKeys()
}

func (w *world) act(n int) (ids []string, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	work := make(chan int)
	for range atOnce {
		all.Go(func() {
			for range work {
				id, werr := w.tagAndDelete()
				mu.Lock()
				ids, err = append(ids, id...), errors.Join(err, werr)
				mu.Unlock()
			}
		})
	}
	for i := range n / 2 {
		work <- i
	}
	close(work)
	all.Wait()
	return ids, err
}

// settle waits until every receiver has heard of everything.
func (w *world) settle(all []*receiver, want map[string]bool, begin time.Time) error {
	deadline := time.Now().Add(10 * time.Minute)
	left := slices.Clone(all)
	for len(left) > 0 {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s has heard of %d activities of %d", left[0].name, left[0].has(want), len(want))
		}
		time.Sleep(100 * time.Millisecond)
		left = slices.DeleteFunc(left, func(r *receiver) bool {
			if r.has(want) < len(want) {
				return false
			}
			fmt.Println(r.report(want, time.Since(begin)))
			return true
		})
	}
	for _, r := range all {
		if err := r.fault(); err != nil {
			return err
		}
	}
	return nil
}
