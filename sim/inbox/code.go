package inbox

import (
	"html"
	"regexp"
	"strings"
)

// Passcodes have 6 to 9 digits or capital letters and digits. In our mails they stand
// alone on a line; templates of others and text messages have them in a sentence.
var (
	codeAlone = regexp.MustCompile(`(?m)^[ \t]*([0-9A-Z]{6,9})[ \t]*$`)
	codeAny   = regexp.MustCompile(`\b[0-9A-Z]{6,9}\b`)
	codeLed   = regexp.MustCompile(`(?i:\bcode\b)[^\n]{0,80}\b([0-9A-Z]{6,9})\b`)

	unseen = regexp.MustCompile(`(?is)<(?:head|style|script)\b.*?</(?:head|style|script)>`)
	tag    = regexp.MustCompile(`<[^>]*>`)
)

// maxSearched is how many bytes of a text are searched; codes stand near its beginning.
const maxSearched = 1 << 15

// code is the passcode in a message, or nothing.
func (m *Message) code() string {
	if c := findCode(beginning(m.Text)); c != "" || m.HTML == "" {
		return c
	}
	return findCode(html.UnescapeString(tag.ReplaceAllString(unseen.ReplaceAllString(beginning(m.HTML), ""), "\n")))
}

func beginning(s string) string { return s[:min(len(s), maxSearched)] }

func findCode(text string) string {
	if m := codeAlone.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	for _, c := range codeAny.FindAllString(text, 64) {
		// A word in capitals is no code; one with a digit in it is likely one.
		if strings.ContainsAny(c, "0123456789") {
			return c
		}
	}
	if m := codeLed.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
