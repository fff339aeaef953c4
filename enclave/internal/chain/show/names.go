package show

import (
	"slices"
	"strings"
	"unicode"

	"cloister/enclave/internal/chain"
)

// Names are the names that the program knows, which no label may pass itself off as. nil has none. They do not change.
type Names struct {
	contracts map[string]map[string]bool // match keys of those who have a name, by its skeleton
	symbols   map[string]bool            // skeletons of what coins and tokens are called, of which the program knows no address
}

// NewNames makes names of contracts and programs, with and without the version at their end, and of symbols.
func NewNames(contracts []Entry, symbols []string) *Names {
	n := &Names{map[string]map[string]bool{}, map[string]bool{}}
	for _, c := range contracts {
		key := chain.MatchKey(c.Address)
		add(n.contracts, skeleton(c.Name), key)
		if i := strings.LastIndexByte(c.Name, ' '); i > 0 && strings.Trim(c.Name[i+1:], "0123456789.") == "" {
			add(n.contracts, skeleton(c.Name[:i]), key)
		}
	}
	for _, s := range symbols {
		n.symbols[skeleton(s)] = true
	}
	return n
}

// clashes tells whether something else has the name of an address, or one that looks like it. A name is held only against those that
// are as good as it or better: otherwise whoever may label a contract could have approvers warned of the names of others.
func (v *View) clashes(name Name, address string) bool {
	s, key := skeleton(name.Text), chain.MatchKey(address)
	k, x := v.known, v.find()
	if s == "" || name.From == FromImage {
		return false
	}
	if others(x.names[s], key) || k.BuiltIn != nil && others(k.BuiltIn.contracts[s], key) {
		return true
	}
	if name.From == FromOperator { // of which chains have tokens of one symbol
		return false
	}
	if k.Tokens.isNamed(s, key) {
		return true
	}
	return name.From == FromInterface && (others(x.labels[s], key) || k.BuiltIn != nil && k.BuiltIn.symbols[s] || v.isOwnName(s) && !v.IsOwn(address))
}

// isOwnName tells whether a wallet or a private key of the organization has a name with a skeleton.
func (v *View) isOwnName(of string) bool {
	if v.ownNames == nil {
		v.ownNames = map[string]bool{}
		if v.known.OwnNames != nil {
			all, err := v.known.OwnNames()
			v.fail(err)
			for _, name := range all {
				v.ownNames[skeleton(name)] = true
			}
		}
	}
	return v.ownNames[of]
}

// LooksLikeName tells whether a name is taken for another, and is not it.
func LooksLikeName(name, other string) bool {
	return name != other && skeleton(name) == skeleton(other)
}

// alike are letters that look like one or two Latin ones, each followed by that.
var alike = func() map[rune]rune {
	m := map[rune]rune{}
	for _, pair := range strings.Fields("аa еe оo рp сc уy хx іi јj ѕs һh ԁd ԛq ԝw кk мm тt нh вb АA ВB ЕE ЅS ІI ЈJ КK МM НH ОO РP СC ТT ХX ҮY " +
		"αa οo ρp νv ιi κk τt υu ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX ɑa ɡg ɩi ʟl ɪi ɴn ʀr ʏy ʜh ʙb ɢg ᴀa ᴄc ᴅd ᴇe ᴊj ᴋk ᴍm ᴏo ᴘp ᴛt ᴜu ᴠv ᴡw ᴢz ꜰf ꜱs ӏl ǀl " +
		"ℓl ℎh ℯe ℊg ℴo ℬB ℰE ℱF ℋH ℐI ℒL ℳM ℛR ℂC ℍH ℕN ℙP ℚQ ℝR ℤZ") {
		r := []rune(pair)
		m[r[0]] = r[1]
	}
	for letter, marked := range map[rune]string{
		'a': "àáâãäåāăąǎạảấầẩẫậắằẳẵặ", 'c': "çćĉċč", 'd': "ďđ", 'e': "èéêëēĕėęěẹẻẽếềểễệ", 'g': "ĝğġģ", 'h': "ĥħ", 'i': "ìíîïĩīĭįıǐỉị", 'j': "ĵ", 'k': "ķ", 'l': "ĺļľŀł", 'n': "ñńņň",
		'o': "òóôõöøōŏőǒọỏốồổỗộớờởỡợơ", 'r': "ŕŗř", 's': "śŝşšș", 't': "ţťŧț", 'u': "ùúûüũūŭůűųǔụủứừửữựư", 'w': "ŵ", 'y': "ýÿŷỳỵỷỹ", 'z': "źżž",
	} {
		for _, r := range marked {
			m[r] = letter
		}
	}
	for digit, letter := range map[rune]rune{'0': 'o', '1': 'l', '3': 'e', '4': 'a', '5': 's', '7': 't', '8': 'b', '|': 'l', '$': 's', '@': 'a', '€': 'e'} {
		m[digit] = letter
	}
	return m
}()

// letterOf is the small Latin letter that a character is taken for; others stay.
func letterOf(r rune) rune {
	const (
		mathLetters, mathDigits = 0x1d400, 0x1d7ce // alphabets of 52 and of 10
		wide                    = 0xfee0           // from ASCII to the same as wide as an ideograph
	)
	switch {
	case r >= mathLetters && r < mathLetters+13*52:
		r = rune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[(r-mathLetters)%52])
	case r >= mathDigits && r < mathDigits+50:
		r = '0' + (r-mathDigits)%10
	case r > ' '+wide && r <= '~'+wide:
		r -= wide
	case r >= 'Ⓐ' && r <= 'Ⓩ':
		r += 'a' - 'Ⓐ'
	case r >= 'ⓐ' && r <= 'ⓩ':
		r += 'a' - 'ⓐ'
	}
	for range 2 { // as it is, and as a small letter
		if to, ok := alike[r]; ok {
			r = to
		}
		r = unicode.ToLower(r)
	}
	if r == 'i' {
		return 'l'
	}
	return r
}

// skeleton is what a name looks like: names with one skeleton are taken for one another. Blanks, marks and punctuation are left out.
func skeleton(name string) string {
	var b strings.Builder
	for _, r := range name {
		if letter := letterOf(r); letter != r {
			b.WriteRune(letter)
		} else if !isHidden(r) && !isTurning(r) && !unicode.IsSpace(r) && !unicode.IsPunct(r) && !isDiacritic(r) {
			b.WriteRune(r)
		}
	}
	return pairs.Replace(b.String())
}

// isDiacritic tells marks over, under and around letters, but for those that make other letters of them, as in the scripts of India.
func isDiacritic(r rune) bool {
	return r >= 0x300 && r <= 0x36f || r >= 0x1ab0 && r <= 0x1aff || r >= 0x1dc0 && r <= 0x1dff || r >= 0x20d0 && r <= 0x20ff
}

// pairs are two letters that look like one.
var pairs = strings.NewReplacer("rn", "m", "vv", "w")

// wordsOf are the words of a name, as skeletons.
func wordsOf(name string) (all []string) {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool {
		return letterOf(r) == r && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && !isHidden(r) && !isTurning(r)
	}) {
		all = append(all, skeleton(word))
	}
	return all
}

// What labels say that speak of trust and not of a contract: words, and parts of words that nothing else has.
var (
	claimWords = skeletons("safe own owned my mine our ours your yours known real secure secured checked internal reviewed whitelisted")
	claimParts = skeletons("verified trusted official approved audited whitelist allowlist addressbook yourown youraccount ownaccount genuine legit authentic")
)

func skeletons(words string) (all []string) {
	for word := range strings.FieldsSeq(words) {
		all = append(all, skeleton(word))
	}
	return all
}

// claims tells whether a label is more than a name: it speaks like a verdict, or looks like an address.
func claims(label string) bool {
	whole, words := skeleton(label), wordsOf(label)
	if slices.ContainsFunc(claimParts, func(part string) bool { return strings.Contains(whole, part) }) {
		return true
	}
	if slices.ContainsFunc(words, func(word string) bool { return slices.Contains(claimWords, word) }) {
		return true
	}
	return looksLikeAddress(label)
}

// looksLikeAddress tells whether a label has a word like an address, or the two ends of one.
func looksLikeAddress(label string) bool {
	const digits, letters = "0123456789", "abcdefghijklmnopqrstuvwxyz"
	lower := strings.Map(func(r rune) rune {
		if r >= 0x80 && r != '…' {
			return letterOf(r)
		}
		return unicode.ToLower(r)
	}, label)
	words := strings.FieldsFunc(lower, func(r rune) bool { return !strings.ContainsRune(digits+letters+".…", r) })
	return slices.ContainsFunc(words, func(word string) bool {
		for prefix, allowed := range map[string]string{"0x": "abcdef", "ox": "abcdef", "bc1": letters, "tb1": letters} {
			rest, ok := strings.CutPrefix(word, prefix)
			if ok && len(rest) >= 4 && strings.ContainsAny(rest, digits) && strings.Trim(rest, digits+allowed+".…") == "" {
				return true
			}
		}
		first, last, elided := strings.Cut(strings.NewReplacer("...", "…", "..", "…").Replace(word), "…")
		if elided && len(first) >= 3 && len(last) >= 3 && strings.ContainsAny(first+last, digits) {
			return true
		}
		return len(word) >= 24 && strings.ContainsAny(word, digits)
	})
}
