package restart_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"cloister/enclave/core"
	"cloister/shared/wire"
)

// A kind of attack.
type kind struct {
	name string
	// plan is an attack of this kind on a history, nil if what was drawn gives none.
	plan func(h *history, r *rand.Rand) *plan
	// off are the checks without which the attack succeeds. Without any, several stand behind each other.
	off []string
	// logged kinds are of deployments that were made with a log, of several ranges.
	logged bool
}

var kinds = []kind{
	{name: "nothing", plan: honest},
	{name: "organization rolled back", plan: rolledBack, off: []string{"tip"}},
	{name: "organization without its last entry", plan: cutEntry, off: []string{"tip"}},
	{name: "older snapshot with all entries", plan: oldSnapshot},
	{name: "organization withheld", plan: withheld, off: []string{"tip"}},
	{name: "organization of a fork", plan: ofFork, off: []string{"tip"}},
	{name: "organization of another deployment", plan: ofForeign},
	{name: "organizations swapped", plan: swapped},
	{name: "parent of another time than its child", plan: parentBack, off: []string{"tip"}},
	{name: "child of another time than its parent", plan: childBack, off: []string{"tip"}},

	{name: "header of random bytes", plan: headers(randomHeader)},
	{name: "header with one bit changed", plan: headers(flippedHeader)},
	{name: "header without its MAC", plan: headers(bareHeader)},
	{name: "header made up for an older ledger", plan: madeUpHeader, off: []string{"mac"}},
	{name: "header left out", plan: headers(without)},
	{name: "headers of one organization left out", plan: withoutOne, off: []string{"chain"}},
	{name: "headers swapped", plan: headers(swappedHeaders)},
	{name: "header twice", plan: headers(twice)},
	{name: "header of a fork", plan: headers(forkHeader)},
	{name: "header of another range", plan: headers(rangeHeader), logged: true},
	{name: "header of another deployment", plan: headers(foreignHeader)},
	{name: "header of before there was a log", plan: headers(oldHeader)},
	{name: "log of another range", plan: rangeLog, logged: true},
	{name: "log of another deployment", plan: foreignLog},
	{name: "log of a fork", plan: forkLog},

	{name: "table of an earlier time, pages of a later one", plan: olderTable},
	{name: "table of a later time, pages of an earlier one", plan: olderPages},
	{name: "table of a later time than the headers", plan: tableAhead},
	{name: "table with headers of another", plan: otherHeaders},
	{name: "table of random bytes", plan: randomTable},
	{name: "table changed", plan: changedTable},
	{name: "table made up for an older ledger", plan: madeUpTable, off: []string{"believed"}},
	{name: "page withheld", plan: alteredPage(func(*rand.Rand, []byte) []byte { return nil })},
	{name: "page with one bit changed", plan: alteredPage(flip)},
	{name: "page of random bytes", plan: alteredPage(func(r *rand.Rand, b []byte) []byte { return random(r, len(b)) })},
	{name: "page with two tips swapped", plan: alteredPage(swapTips)},
	{name: "page made up for an older ledger", plan: madeUpPage, off: []string{"page"}},
	{name: "older table with all headers", plan: oldTable},
	{name: "no table with all headers", plan: noTable},

	{name: "log cut, organizations of now", plan: cutLog},
	{name: "whole store of an earlier time", plan: wholeBack},
	{name: "range of an earlier time", plan: rangeBack, logged: true},
	{name: "no log", plan: noLog, logged: true},
}

// sourceOf is what the attack of a seed is drawn from.
func sourceOf(seed uint64, name string) *rand.Rand {
	f := fnv.New64a()
	f.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, f.Sum64()))
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func flip(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	return b
}

// late is one of the newer copies.
func (h *history) late(r *rand.Rand) *shot {
	return h.shots[len(h.shots)-1-r.IntN(min(3, len(h.shots)))]
}

// earlier is a copy from before another.
func (h *history) earlier(r *rand.Rand, s *shot) *shot {
	if i := slices.Index(h.shots, s); i > 0 {
		return h.shots[r.IntN(i)]
	}
	return nil
}

// some is an organization of those that have all of this.
func (h *history) some(r *rand.Rand, is func(*account) bool) *account {
	for _, n := range r.Perm(len(h.orgs)) {
		if is(h.orgs[n]) {
			return h.orgs[n]
		}
	}
	return nil
}

// movedSince tells of an organization that is in both copies and not at the same place.
func movedSince(old, s *shot) func(*account) bool {
	return func(a *account) bool {
		_, there := old.tags[a]
		return there && old.tip(a) != s.tip(a)
	}
}

func honest(h *history, r *rand.Rand) *plan {
	s := h.late(r)
	return &plan{shot: s, comes: true, then: s}
}

// back shows one organization of those that fit as it was before.
func (h *history) back(r *rand.Rand, fits func(*account) bool) *plan {
	s := h.late(r)
	old := h.earlier(r, s)
	if old == nil {
		return nil
	}
	moved := movedSince(old, s)
	a := h.some(r, func(a *account) bool { return moved(a) && fits(a) })
	if a == nil {
		return nil
	}
	return &plan{shot: s, comes: true, then: s, refused: set(a), lies: lies{orgs: map[wire.ID]shown{a.wid: {from: old.read, id: a.wid}}}}
}

func rolledBack(h *history, r *rand.Rand) *plan {
	return h.back(r, func(*account) bool { return true })
}

func (h *history) hasChild(a *account, s *shot) bool {
	for child := range s.tags {
		if child.parent == a {
			return true
		}
	}
	return false
}

func parentBack(h *history, r *rand.Rand) *plan {
	return h.back(r, func(a *account) bool { return h.hasChild(a, h.shots[0]) })
}

func childBack(h *history, r *rand.Rand) *plan {
	return h.back(r, func(a *account) bool { return a.parent != nil })
}

// cutEntry leaves out the last entry.
func cutEntry(h *history, r *rand.Rand) *plan {
	s := h.late(r)
	a := h.some(r, func(a *account) bool { return s.tags[a] > 1 })
	is := shown{from: s.read, id: a.wid, edit: func(o *wire.Organization) {
		if o.Count--; len(o.Entries) > 0 {
			o.Entries = o.Entries[:len(o.Entries)-1]
		}
	}}
	return &plan{shot: s, comes: true, then: s, refused: set(a), lies: lies{orgs: map[wire.ID]shown{a.wid: is}}}
}

// oldSnapshot is no lie: an older snapshot with all entries behind it says the same.
func oldSnapshot(h *history, r *rand.Rand) *plan {
	s := h.late(r)
	old := h.earlier(r, s)
	if old == nil {
		return nil
	}
	moved := movedSince(old, s)
	a := h.some(r, func(a *account) bool { return moved(a) && old.load(a).From < s.load(a).From })
	if a == nil {
		return nil
	}
	is := shown{from: old.read, id: a.wid, edit: func(o *wire.Organization) {
		o.Count = s.load(a).Count
		o.Entries = must(s.read.LoadEntries(context.Background(), wire.LoadEntries{Organization: a.wid, From: o.From, MaxBytes: loadBytes})).Entries
	}}
	return &plan{shot: s, comes: true, then: s, torn: true, lies: lies{orgs: map[wire.ID]shown{a.wid: is}}}
}

func withheld(h *history, r *rand.Rand) *plan {
	s := h.late(r)
	a := h.some(r, func(a *account) bool { _, there := s.tags[a]; return there })
	return &plan{shot: s, comes: true, then: s, refused: set(a), lies: lies{orgs: map[wire.ID]shown{a.wid: {}}}}
}

func (h *history) stray(s *shot, from *shot, a *account) *plan {
	return &plan{shot: s, comes: true, then: s, also: []*account{a}, lies: lies{orgs: map[wire.ID]shown{a.wid: {from: from.read, id: a.wid}}}}
}

func ofFork(h *history, r *rand.Rand) *plan { return h.stray(h.late(r), h.fork, h.strays[0]) }

func ofForeign(h *history, r *rand.Rand) *plan {
	return h.stray(h.late(r), h.foreign, h.strays[1+r.IntN(len(h.strays)-1)])
}

func swapped(h *history, r *rand.Rand) *plan {
	s := h.late(r)
	there := func(a *account) bool { _, is := s.tags[a]; return is }
	a := h.some(r, there)
	b := h.some(r, func(b *account) bool { return there(b) && b != a })
	label := r.IntN(2) == 0
	return &plan{shot: s, comes: true, then: s, refused: set(a, b), lies: lies{orgs: map[wire.ID]shown{
		a.wid: {from: s.read, id: b.wid, relabelled: label}, b.wid: {from: s.read, id: a.wid, relabelled: label}}}}
}

// A choice is a tip table that the host may show with a copy, and the headers behind it.
type choice struct {
	table   []byte // empty: none
	headers [][]byte
}

// choices are the tables of a copy and of those before it, oldest first. A log that began empty can be shown
// without one.
func (h *history) choices(s *shot, of wire.Range) (all []choice) {
	if !h.release {
		all = append(all, choice{headers: s.behind(of, nil)})
	}
	for _, old := range h.shots[:slices.Index(h.shots, s)+1] {
		if table := old.table(of); len(table) > 0 && (len(all) == 0 || !bytes.Equal(table, all[len(all)-1].table)) {
			all = append(all, choice{table, s.behind(of, table)})
		}
	}
	return all
}

func (h *history) choose(r *rand.Rand, s *shot, of wire.Range, headers int) *choice {
	all := h.choices(s, of)
	if r.IntN(2) == 0 { // the newest that has so many headers
		slices.Reverse(all)
	} else {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	for i := range all {
		if len(all[i].headers) >= headers {
			return &all[i]
		}
	}
	return nil
}

func (c *choice) lies(of wire.Range) lies {
	return lies{of: of, table: func([]byte) []byte { return c.table }}
}

func instead(all [][]byte) func([][]byte) [][]byte { return func([][]byte) [][]byte { return all } }

func (h *history) someRange(r *rand.Rand) wire.Range { return wire.Range(r.IntN(h.ranges)) }

// headers are attacks that alter headers. Nothing comes of any.
func headers(alter func(h *history, r *rand.Rand, of wire.Range, all [][]byte) [][]byte) func(*history, *rand.Rand) *plan {
	return func(h *history, r *rand.Rand) *plan {
		s, of := h.late(r), h.someRange(r)
		c := h.choose(r, s, of, 3)
		if c == nil || len(c.table) > 0 && parseTable(c.table).Covers == 0 { // of a log that has not begun
			return nil
		}
		altered := alter(h, r, of, slices.Clone(c.headers))
		if altered == nil {
			return nil
		}
		p := &plan{shot: s, lies: c.lies(of)}
		p.lies.headers = instead(altered)
		return p
	}
}

func put(r *rand.Rand, all [][]byte, b []byte) [][]byte {
	i := r.IntN(len(all) + 1)
	if i < len(all) && r.IntN(2) == 0 {
		all[i] = b
		return all
	}
	return slices.Insert(all, i, b)
}

func randomHeader(_ *history, r *rand.Rand, _ wire.Range, all [][]byte) [][]byte {
	return put(r, all, random(r, 1+r.IntN(300)))
}

func flippedHeader(_ *history, r *rand.Rand, _ wire.Range, all [][]byte) [][]byte {
	i := r.IntN(len(all))
	all[i] = flip(r, all[i])
	return all
}

func bareHeader(_ *history, r *rand.Rand, _ wire.Range, all [][]byte) [][]byte {
	i := r.IntN(len(all))
	if all[i] = all[i][:len(all[i])-macBytes]; r.IntN(2) == 0 {
		all[i] = append(slices.Clone(all[i]), make([]byte, macBytes)...)
	}
	return all
}

func without(_ *history, r *rand.Rand, _ wire.Range, all [][]byte) [][]byte {
	i := r.IntN(len(all) - 1)
	return slices.Delete(all, i, i+1)
}

func swappedHeaders(_ *history, r *rand.Rand, _ wire.Range, all [][]byte) [][]byte {
	i := r.IntN(len(all) - 1)
	j := i + 1 + r.IntN(len(all)-i-1)
	all[i], all[j] = all[j], all[i]
	return all
}

func twice(_ *history, r *rand.Rand, _ wire.Range, all [][]byte) [][]byte {
	i := r.IntN(len(all))
	return slices.Insert(all, i+r.IntN(len(all)-i+1), all[i])
}

// forkHeader puts a header of the fork among those of the log, where it fits or anywhere, and goes on.
func forkHeader(h *history, r *rand.Rand, of wire.Range, all [][]byte) [][]byte {
	var own [][]byte
	for _, b := range h.fork.behind(of, nil) {
		if !slices.ContainsFunc(h.newest().behind(of, nil), func(a []byte) bool { return bytes.Equal(a, b) }) {
			own = append(own, b)
		}
	}
	b := own[r.IntN(len(own))]
	at := slices.IndexFunc(all, func(a []byte) bool { return parseHeader(a).Position == parseHeader(b).Position })
	if at < 0 || at == len(all)-1 || r.IntN(3) == 0 {
		at = r.IntN(len(all) - 1)
	}
	if r.IntN(2) == 0 {
		all[at] = b
		return all
	}
	return slices.Insert(all, at, b)
}

func rangeHeader(h *history, r *rand.Rand, of wire.Range, all [][]byte) [][]byte {
	other := h.newest().behind(1-of, nil)
	return put(r, all, other[r.IntN(len(other))])
}

func foreignHeader(h *history, r *rand.Rand, of wire.Range, all [][]byte) [][]byte {
	other := h.foreign.behind(of, nil)
	return put(r, all, other[r.IntN(len(other))])
}

// oldHeader puts one that a release before logs would have written, which had no MAC.
func oldHeader(_ *history, r *rand.Rand, _ wire.Range, all [][]byte) [][]byte {
	old := must(wire.Marshal(&header{Format: 1, Previous: [32]byte(random(r, 32))}))
	if r.IntN(2) == 0 {
		return slices.Insert(all, 0, old)
	}
	return put(r, all, old)
}

// madeUpHeader moves an organization to where it was, and shows it there.
func madeUpHeader(h *history, r *rand.Rand) *plan {
	p := h.back(r, func(*account) bool { return true })
	if p == nil {
		return nil
	}
	a, old := p.lied(h)
	c := h.choose(r, p.shot, a.of, 1)
	made := next(c.headers[len(c.headers)-1], old)
	p.lies.of, p.lies.table = a.of, func([]byte) []byte { return c.table }
	p.lies.headers = func(all [][]byte) [][]byte { return append(all, made.sealed(random(r, macBytes))) }
	p.comes = false
	return p
}

// lied is the organization that a plan rolls back, and to where.
func (p *plan) lied(h *history) (*account, tip) {
	for a := range p.refused {
		is := p.lies.orgs[a.wid]
		for _, s := range h.shots {
			if s.read == is.from {
				return a, s.tip(a)
			}
		}
	}
	panic("nothing is rolled back")
}

// withoutOne leaves out the headers since an earlier copy that move an organization, and shows it as it was.
func withoutOne(h *history, r *rand.Rand) *plan {
	p := h.back(r, func(*account) bool { return true })
	if p == nil {
		return nil
	}
	a, old := p.lied(h)
	for _, c := range h.choices(p.shot, a.of) {
		var fewer [][]byte
		for i, b := range c.headers {
			at := slices.IndexFunc(parseHeader(b).Tips, func(t tip) bool { return t.Organization == a.wid })
			if at < 0 || parseHeader(b).Tips[at].Count <= old.Count {
				fewer = append(fewer, b)
			} else if i == len(c.headers)-1 {
				return nil // which is a log cut short
			}
		}
		if len(fewer) == len(c.headers) || h.tips(c.table, fewer)[a.wid] != old || !names(fewer, c.table) {
			continue
		}
		p.lies.of, p.lies.table, p.lies.headers, p.comes = a.of, c.lies(a.of).table, instead(fewer), false
		return p
	}
	return nil
}

func rangeLog(h *history, r *rand.Rand) *plan {
	s, of := h.late(r), h.someRange(r)
	return h.anotherLog(r, s, of, h.choose(r, s, 1-of, 1))
}

func foreignLog(h *history, r *rand.Rand) *plan {
	of := h.someRange(r)
	table := h.foreign.table(of)
	return h.anotherLog(r, h.late(r), of, &choice{table, h.foreign.behind(of, table)})
}

func (h *history) anotherLog(r *rand.Rand, s *shot, of wire.Range, c *choice) *plan {
	if len(c.headers) == 0 {
		return nil
	}
	p := &plan{shot: s, lies: c.lies(of)}
	p.lies.headers = instead(c.headers)
	if len(c.table) > 0 && !h.release && r.IntN(3) == 0 { // the headers alone
		p.lies.table = func([]byte) []byte { return nil }
	}
	return p
}

// forkLog shows the organizations of one boot under the log of another that began where this one did.
func forkLog(h *history, r *rand.Rand) *plan {
	of := h.someRange(r)
	c := &choice{table: h.fork.table(of)}
	c.headers = h.fork.behind(of, c.table)
	p := &plan{shot: h.newest(), lies: c.lies(of), also: h.strays[:1]}
	p.lies.headers = instead(c.headers)
	return h.told(p, of, h.tips(c.table, c.headers))
}

// onPages are the organizations that nothing but one of these pages tells of. One that would tell of the range's plans
// is behind every answer: without it nobody knows that there are none.
func (h *history) onPages(s *shot, of wire.Range, c *choice, bad func(wire.Hash) bool) map[*account]bool {
	since, is := moved(c.headers), map[wire.ID]bool{}
	hashes := h.pageHashes(c.table)
	plans := bad(hashes[pageOf(core.PlansID(of, h.ranges), len(hashes))])
	for _, hash := range hashes {
		for _, t := range parsePage(h.pages.page(hash)) {
			is[t.Organization] = bad(hash)
		}
	}
	all := map[*account]bool{}
	for _, a := range h.orgs {
		if _, moved := since[a.wid]; (plans || is[a.wid] && !moved) && a.of == of {
			all[a] = true
		}
	}
	return all
}

// mixed shows a table of some copies with pages of another.
func (h *history) mixed(r *rand.Rand, table, from func(all []choice) *choice) *plan {
	s, of := h.late(r), h.someRange(r)
	all := slices.DeleteFunc(h.choices(s, of), func(c choice) bool { return len(c.table) == 0 })
	if len(all) < 2 {
		return nil
	}
	c, other := table(all), h.pageHashes(from(all).table)
	own := h.pageHashes(c.table)
	lies := c.lies(of)
	lies.pages = func(ask []wire.Hash, honest [][]byte) [][]byte {
		for i, hash := range ask {
			switch at := slices.Index(own, hash); {
			case slices.Contains(other, hash):
				honest[i] = h.pages.page(hash)
			case at >= 0 && at < len(other):
				honest[i] = h.pages.page(other[at])
			case at >= 0:
				honest[i] = nil // as if dropped
			} // another one is of the table that this boot has made meanwhile
		}
		return honest
	}
	refused := h.onPages(s, of, c, func(hash wire.Hash) bool { return !slices.Contains(other, hash) })
	if len(refused) == 0 {
		return nil
	}
	return &plan{shot: s, comes: true, then: s, refused: refused, lies: lies}
}

func newestOf(all []choice) *choice { return &all[len(all)-1] }

func olderTable(h *history, r *rand.Rand) *plan {
	return h.mixed(r, func(all []choice) *choice { return &all[r.IntN(len(all)-1)] }, newestOf)
}

func olderPages(h *history, r *rand.Rand) *plan {
	return h.mixed(r, newestOf, func(all []choice) *choice { return &all[r.IntN(len(all)-1)] })
}

// tableAhead shows a table whose leaf is not among the headers yet.
func tableAhead(h *history, r *rand.Rand) *plan {
	s, of := h.late(r), h.someRange(r)
	c := h.choose(r, s, of, 1)
	if len(c.table) == 0 || parseTable(c.table).Covers == 0 { // an empty log
		return nil
	}
	named := 1
	for !names(c.headers[:named], c.table) {
		named++
	}
	p := &plan{shot: s, lies: c.lies(of)}
	p.lies.headers = instead(c.headers[:r.IntN(named)])
	return p
}

// otherHeaders shows a table with the headers behind another.
func otherHeaders(h *history, r *rand.Rand) *plan {
	s, of := h.late(r), h.someRange(r)
	all := h.choices(s, of)
	i, j := r.IntN(len(all)), r.IntN(len(all))
	if i == j {
		return nil
	}
	p := &plan{shot: s, lies: all[i].lies(of)}
	p.lies.headers = instead(all[j].headers)
	return p
}

// tabled is a copy with a table of a range.
func (h *history) tabled(r *rand.Rand) (s *shot, of wire.Range, c *choice) {
	s, of = h.late(r), h.someRange(r)
	all := slices.DeleteFunc(h.choices(s, of), func(c choice) bool { return len(c.table) == 0 })
	if len(all) == 0 {
		return nil, 0, nil
	}
	return s, of, &all[len(all)-1-r.IntN(min(2, len(all)))]
}

func randomTable(h *history, r *rand.Rand) *plan {
	s, of, c := h.tabled(r)
	if c == nil {
		return nil
	}
	c.table = random(r, 1+r.IntN(400))
	return &plan{shot: s, lies: c.lies(of)}
}

// changedTable changes what a table says. Where its headers begin is not of it: the host may keep them anywhere.
func changedTable(h *history, r *rand.Rand) *plan {
	s, of, c := h.tabled(r)
	if c == nil {
		return nil
	}
	k := parseTable(c.table)
	if len(k.Edge) == 0 || len(k.Blocks) == 0 {
		return nil
	}
	what := r.IntN(10)
	switch what {
	case 0:
		k.Blocks = flip(r, k.Blocks)
	case 1:
		k.Edge = flip(r, k.Edge)
	case 2:
		k.Previous = [32]byte(flip(r, k.Previous[:]))
	case 3:
		k.Covers ^= 1 << r.IntN(64)
	case 4:
		k.Tips ^= 1 << r.IntN(64)
	case 5:
		k.Format ^= 1 << r.IntN(8)
	case 6:
		k.Blocks = append(k.Blocks, random(r, 32)...)
	case 7:
		k.Edge = k.Edge[:len(k.Edge)-1]
	case 8:
		k.Policy = [32]byte(flip(r, k.Policy[:]))
	case 9:
		k.Mode ^= 1 << r.IntN(2)
	}
	c.table = must(wire.Marshal(k))
	p := &plan{shot: s, lies: c.lies(of), note: fmt.Sprint("field ", what)}
	return p
}

// asOld is a table's page with an organization as it was, which shows it so, if the table alone says where it stands.
func (h *history) asOld(r *rand.Rand) (p *plan, c *choice, hash wire.Hash, page []byte) {
	if p = h.back(r, func(*account) bool { return true }); p == nil {
		return nil, nil, hash, nil
	}
	a, old := p.lied(h)
	for _, c := range h.choices(p.shot, a.of) {
		if _, since := moved(c.headers)[a.wid]; since || len(c.table) == 0 {
			continue
		}
		for _, hash := range h.pageHashes(c.table) {
			if page := withTip(h.pages.page(hash), old); page != nil {
				return p, &c, hash, page
			}
		}
	}
	return nil, nil, hash, nil
}

// swapTips gives one organization the tip of another.
func swapTips(r *rand.Rand, page []byte) []byte {
	all := parsePage(page)
	i := r.IntN(len(all))
	j := (i + 1) % len(all)
	t := all[j]
	t.Organization = all[i].Organization
	if page = withTip(page, t); i != j {
		t = all[i]
		t.Organization = all[j].Organization
		return withTip(page, t)
	}
	return nil
}

func madeUpTable(h *history, r *rand.Rand) *plan {
	p, c, hash, page := h.asOld(r)
	if p == nil {
		return nil
	}
	a, _ := p.lied(h)
	k := parseTable(c.table)
	sum, at := hashOf(page), slices.Index(h.pageHashes(c.table), hash)
	block := k.BlockHashes()[at/wire.BlockPages]
	changed := bytes.Replace(h.pages.page(block), hash[:], sum[:], 1)
	changedSum := hashOf(changed)
	k.Blocks = bytes.Replace(k.Blocks, block[:], changedSum[:], 1)
	p.lies.of, p.lies.table, p.comes = a.of, func([]byte) []byte { return must(wire.Marshal(k)) }, false
	p.lies.pages = func(ask []wire.Hash, honest [][]byte) [][]byte {
		return showing(changedSum, changed)(ask, showing(sum, page)(ask, honest))
	}
	return p
}

func madeUpPage(h *history, r *rand.Rand) *plan {
	p, c, hash, page := h.asOld(r)
	if p == nil {
		return nil
	}
	a, _ := p.lied(h)
	p.lies.of, p.lies.table = a.of, c.lies(a.of).table
	p.lies.pages = showing(hash, page)
	p.refused = h.onPages(p.shot, a.of, c, func(h wire.Hash) bool { return h == hash })
	return p
}

// showing shows a page for a hash.
func showing(hash wire.Hash, page []byte) func([]wire.Hash, [][]byte) [][]byte {
	return func(ask []wire.Hash, honest [][]byte) [][]byte {
		for i := range ask {
			if ask[i] == hash {
				honest[i] = page
			}
		}
		return honest
	}
}

// alteredPage alters one page of a table.
func alteredPage(alter func(*rand.Rand, []byte) []byte) func(*history, *rand.Rand) *plan {
	return func(h *history, r *rand.Rand) *plan {
		s, of, c := h.tabled(r)
		if c == nil {
			return nil
		}
		all := h.pageHashes(c.table)
		if len(all) == 0 { // of a range without organizations
			return nil
		}
		hash := all[r.IntN(len(all))]
		honest := h.pages.page(hash)
		if len(honest) == 0 {
			return nil
		}
		p := &plan{shot: s, comes: true, then: s, lies: c.lies(of), refused: h.onPages(s, of, c, func(h wire.Hash) bool { return h == hash })}
		p.lies.pages = showing(hash, alter(r, honest))
		if len(p.refused) == 0 {
			return nil
		}
		return p
	}
}

// oldTable is no lie: an older table with all headers behind it says the same.
func oldTable(h *history, r *rand.Rand) *plan {
	s, of := h.late(r), h.someRange(r)
	all := slices.DeleteFunc(h.choices(s, of), func(c choice) bool { return len(c.table) == 0 })
	if len(all) < 2 {
		return nil
	}
	c := all[r.IntN(len(all)-1)]
	return &plan{shot: s, comes: true, then: s, lies: c.lies(of)}
}

// noTable is no lie where the log began empty. One that adopted what a release before had left begins
// anew without a table, since nothing says that it had begun.
func noTable(h *history, r *rand.Rand) *plan {
	s, of := h.late(r), h.someRange(r)
	c := &choice{}
	return &plan{shot: s, comes: true, then: s, lies: c.lies(of)}
}

// cutLog shows organizations of now under a log of before.
func cutLog(h *history, r *rand.Rand) *plan {
	s, of := h.late(r), h.someRange(r)
	c := h.choose(r, s, of, 3)
	if c == nil {
		return nil
	}
	left := c.headers[:1+r.IntN(len(c.headers)-1)]
	p := &plan{shot: s, lies: c.lies(of)}
	p.lies.headers = instead(left)
	if !names(left, c.table) {
		return p
	}
	return h.told(p, of, h.tips(c.table, left))
}

func wholeBack(h *history, r *rand.Rand) *plan {
	s := h.earlier(r, h.newest())
	return &plan{shot: s, comes: true, then: s}
}

// rangeBack shows one range with all that is in it as it was before: each has its own log.
func rangeBack(h *history, r *rand.Rand) *plan {
	s, of := h.late(r), h.someRange(r)
	old := h.earlier(r, s)
	if old == nil {
		return nil
	}
	c := &choice{table: old.table(of)}
	c.headers = old.behind(of, c.table)
	p := &plan{shot: s, comes: true, then: &shot{tags: map[*account]int{}}, lies: c.lies(of), torn: true}
	p.lies.headers = instead(c.headers)
	p.lies.orgs = map[wire.ID]shown{}
	for _, a := range h.orgs {
		from := s
		if a.of == of {
			from = old
			p.lies.orgs[a.wid] = shown{from: old.read, id: a.wid}
		}
		if n, there := from.tags[a]; there {
			p.then.tags[a] = n
		}
	}
	return p
}

// noLog claims that there never was a log.
func noLog(h *history, r *rand.Rand) *plan {
	s, of := h.late(r), h.someRange(r)
	c := &choice{}
	p := &plan{shot: s, lies: c.lies(of)}
	p.lies.headers = instead(nil)
	return h.told(p, of, nil)
}
