package restart_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"cloister/enclave/core"
	"cloister/shared/wire"
)

// A plan is one attack: which copy of the store the next boot gets, what is lied about it, and what must
// come of it.
type plan struct {
	shot *shot
	lies lies
	// comes tells that the boot comes up. Then every organization is as it was in then, or refused, or
	// not there: one of absent, or one that then does not have.
	comes           bool
	then            *shot
	refused, absent map[*account]bool
	also            []*account // are asked for beside those of the history
	// torn tells that the store is none that takes what would be written now.
	torn bool
	note string
}

func set(all ...*account) map[*account]bool {
	is := map[*account]bool{}
	for _, a := range all {
		is[a] = true
	}
	return is
}

// A verdict is what came of a plan.
type verdict struct {
	comes                   bool
	served, refused, absent int
	wrong                   []string // replies that are not of then: the attack has succeeded
	untrue                  []string // those of them that are not so in the copy either
	unlike                  []string // what else is not as the plan says
	alarms                  map[string]uint64
}

func (v *verdict) fine() bool { return len(v.wrong)+len(v.unlike) == 0 }

// asked are the organizations that a run asks for: all that write, and some that do not.
func (h *history) asked(r *rand.Rand, p *plan) (all []*account) {
	quiet := map[bool]int{} // those to be refused, and others
	for _, n := range r.Perm(len(h.orgs)) {
		a := h.orgs[n]
		if a.quiet {
			if quiet[p.refused[a]]++; quiet[p.refused[a]] > 3 {
				continue
			}
		}
		all = append(all, a)
	}
	return append(all, p.also...)
}

// play boots an enclave over a copy of the plan's store and judges what it answers. The untouched store
// must serve.
func (h *history) play(r *rand.Rand, p *plan) *verdict {
	v := h.boot(r, p)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.controlled[p.shot] {
		if honest := h.boot(r, &plan{shot: p.shot, comes: true, then: p.shot}); !honest.fine() {
			v.unlike = append(v.unlike, fmt.Sprintf("the untouched store: %q %q", honest.wrong, honest.unlike))
		}
		h.controlled[p.shot] = true
	}
	return v
}

func (h *history) boot(r *rand.Rand, p *plan) *verdict {
	v := new(verdict)
	unlike := func(format string, args ...any) { v.unlike = append(v.unlike, fmt.Sprintf(format, args...)) }
	file, remove := scrap()
	defer remove()
	copyStore(p.shot.file, file)
	limits := core.Limits{SnapshotEvery: 2 + r.IntN(6)}
	if r.IntN(2) == 0 {
		limits.TableEvery = 2
	}
	if p.torn {
		limits = core.Limits{}
	}
	e := must(h.open(file, limits))
	defer e.stop()
	e.store.tell(&p.lies)
	err := e.join(h)
	v.comes = err == nil
	if v.comes != p.comes {
		unlike("the boot: %v", err)
	}
	all := h.asked(r, p)
	if !v.comes {
		all = all[:1]
	}
	var stands, falls []*account
	for _, a := range all {
		got := h.ask(e, a, a, p, v)
		switch {
		case got.served():
			v.served++
			stands = append(stands, a)
		case got.refused():
			v.refused++
			falls = append(falls, a)
		case v.comes:
			v.absent++
		}
	}
	if v.comes {
		for _, a := range all {
			if a.parent != nil && slices.Contains(all, a.parent) {
				h.ask(e, a, a.parent, p, v)
			}
		}
		if i := len(falls); i > 0 {
			if got := e.tag(falls[r.IntN(i)], 1_000); !got.refused() {
				v.wrong = append(v.wrong, fmt.Sprintf("a submit where a query was refused: %v", got))
			}
		}
		i := slices.IndexFunc(stands, func(a *account) bool { return !a.quiet && !p.refused[a.parent] })
		if i >= 0 && !p.torn && v.fine() {
			a := stands[i]
			if got := e.tag(a, p.then.tags[a]+1); !got.served() {
				unlike("a submit where a query was served: %v", got)
			}
		}
	}
	v.alarms = e.alarms()
	if lied := !p.comes || len(p.refused) > 0; lied != (len(v.alarms) > 0) {
		unlike("alarms: %v", v.alarms)
	}
	if v.comes && p.lies.headers == nil { // an honest host again, and the log was the newest
		e.store.tell(nil)
		for _, a := range falls {
			if n, got := e.tags(a, a); !got.served() || n != p.shot.tags[a] {
				unlike("%s, when the host was honest again: %v", a.id, got)
			}
		}
	}
	return v
}

// ask asks for an organization's state and judges the answer.
func (h *history) ask(e *enclave, a, by *account, p *plan, v *verdict) answer {
	n, got := e.tags(a, by)
	if !v.comes {
		if got.served() {
			v.wrong = append(v.wrong, fmt.Sprintf("an answer without a boot: %v", got))
		}
		return got
	}
	truth, is := p.shot.tags[a]
	if got.served() && (!is || n != truth) || !got.served() && !got.refused() && is {
		v.untrue = append(v.untrue, fmt.Sprintf("%s: %d tags, not %d: %v", a.id, n, truth, got))
	}
	if p.then == nil {
		if got.served() {
			v.wrong = append(v.wrong, fmt.Sprintf("%s: served", a.id))
		}
		return got
	}
	want, there := p.then.tags[a]
	there = there && !p.absent[a]
	refused := p.refused[a] || there && p.refused[by]
	switch {
	case got.served() && (refused || !there || n != want):
		v.wrong = append(v.wrong, fmt.Sprintf("%s: %d tags, not %d; refused is right: %v; there: %v", a.id, n, want, refused, there))
	case !got.served() && !got.refused() && (there || refused):
		v.wrong = append(v.wrong, fmt.Sprintf("%s: %v; refused is right: %v", a.id, got, refused))
	case got.refused() && !refused:
		v.unlike = append(v.unlike, fmt.Sprintf("%s: %v", a.id, got))
	}
	return got
}

// told is what a copy's organizations are under what a log says: those that stand elsewhere are refused,
// those that it does not have are absent.
func (h *history) told(p *plan, of wire.Range, log map[wire.ID]tip) *plan {
	p.comes, p.then, p.refused, p.absent = true, p.shot, map[*account]bool{}, map[*account]bool{}
	for _, a := range append(slices.Clone(h.orgs), p.also...) {
		if a.of != of {
			continue
		}
		is, there := log[a.wid]
		switch {
		case !there:
			p.absent[a] = true
		case is != p.shot.tip(a):
			p.refused[a] = true
		}
	}
	return p
}
