package differential_test

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// line is one line of a script:
//
//	[&]conn verb [argument…] [key=value…] [@deviation]
//
// A leading & joins the line to the one before it: both leave in one segment, and replies are read afterwards. The
// first argument is mostly a path; ~ at its beginning stands for the script's own root node. A value may be quoted as
// in Go; null is the null string, buffer or list. @deviation names a line of testdata/deviations.txt: the answers may
// differ here.
//
//	open       timeout=30000 session=CONN passwd=wrong|null|short|empty ro=0|1|absent zxid=0 proto=0
//	dial       a TCP connection without a handshake; bytes HEX sends raw bytes on it
//	drop       closes the TCP connection, not the session
//	close      closeSession
//	await N    waits for N events
//	4lw WORD   on a TCP connection of its own
//	create, create2, createContainer PATH data= acl= mode=; createTTL also ttl=
//	delete, check PATH version=; setData PATH data= version=; setACL PATH acl= version=
//	exists, getData, getChildren, getChildren2 PATH watch=
//	getACL, sync, getAllChildrenNumber, getEphemerals, deleteContainer PATH
//	multi, multiRead OP ; OP ; …
//	addWatch PATH mode=; checkWatches, removeWatches PATH type=
//	setWatches zxid= data= exist= child=; setWatches2 also persistent= recursive=
//	auth SCHEME DATA; sasl TOKEN; reconfig joining= leaving= members= id=; ping; whoAmI
//	raw op= body=HEX
//
// Each request takes xid= as well. acl is a list of scheme:id:perms, lists are separated by commas, and the zxid of
// setWatches counts from the script's first.
type line struct {
	joined    bool
	conn      string
	verb      string
	args      []string // the positional ones, still quoted
	keys      map[string]string
	order     []string // of the keys, for printing
	ops       []line   // of multi and multiRead
	deviation string
}

// script is one named list of lines.
type script struct {
	name  string
	lines []line
}

// suite is a file of scripts that share a pair of servers.
type suite struct {
	conf    map[string]string
	jvm     []string
	scripts []script
}

// parseSuite reads a file: "#conf key=value" and "#jvm -Dkey=value" before the first script, "--- name" before each.
func parseSuite(path string) (suite, error) {
	s := suite{conf: map[string]string{}}
	file, err := os.Open(path) //nolint:gosec // a test's own file
	if err != nil {
		return s, err
	}
	defer file.Close() //nolint:errcheck // read only
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 4<<20)
	for n := 1; scanner.Scan(); n++ {
		text := strings.TrimSpace(scanner.Text())
		switch {
		case strings.HasPrefix(text, "#conf "):
			key, value, _ := strings.Cut(strings.TrimPrefix(text, "#conf "), "=")
			s.conf[key] = value
		case strings.HasPrefix(text, "#jvm "):
			s.jvm = append(s.jvm, strings.TrimPrefix(text, "#jvm "))
		case strings.HasPrefix(text, "--- "):
			s.scripts = append(s.scripts, script{name: strings.TrimPrefix(text, "--- ")})
		case text == "" || text[0] == '#':
		case len(s.scripts) == 0:
			return s, fmt.Errorf("%s:%d: a line before the first --- name", path, n)
		default:
			l, err := parseLine(text)
			if err != nil {
				return s, fmt.Errorf("%s:%d: %w", path, n, err)
			}
			last := &s.scripts[len(s.scripts)-1]
			if l.joined && (len(last.lines) == 0 || last.lines[len(last.lines)-1].conn != l.conn) {
				return s, fmt.Errorf("%s:%d: & joins lines of one connection", path, n)
			}
			last.lines = append(last.lines, l)
		}
	}
	return s, scanner.Err()
}

func parseLine(text string) (line, error) {
	joined := strings.HasPrefix(text, "&")
	tokens, err := tokenize(strings.TrimPrefix(text, "&"))
	if err != nil {
		return line{}, err
	}
	if len(tokens) < 2 {
		return line{}, fmt.Errorf("want a connection and a verb in %q", text)
	}
	l := parseOp(tokens[1:])
	l.joined, l.conn = joined, tokens[0]
	if l.verb != "multi" && l.verb != "multiRead" {
		return l, nil
	}
	var part []string
	for _, token := range append(tokens[2:], ";") {
		switch {
		case strings.HasPrefix(token, "@"):
			l.deviation = token[1:]
		case token != ";":
			part = append(part, token)
		case len(part) > 0:
			l.ops = append(l.ops, parseOp(part))
			part = nil
		}
	}
	l.args, l.keys, l.order = nil, nil, nil
	return l, nil
}

func parseOp(tokens []string) line {
	l := line{verb: tokens[0], keys: map[string]string{}}
	for _, token := range tokens[1:] {
		key, value, isKey := strings.Cut(token, "=")
		switch {
		case strings.HasPrefix(token, "@"):
			l.deviation = token[1:]
		case isKey && strings.IndexFunc(key, func(r rune) bool { return r < 'a' || r > 'z' }) < 0 && key != "":
			l.keys[key] = value
			l.order = append(l.order, key)
		default:
			l.args = append(l.args, token)
		}
	}
	return l
}

// tokenize splits at blanks outside quotes.
func tokenize(text string) ([]string, error) {
	var tokens []string
	var token strings.Builder
	for i := 0; i < len(text); {
		switch {
		case text[i] == '"':
			quoted, err := strconv.QuotedPrefix(text[i:])
			if err != nil {
				return nil, fmt.Errorf("quotes in %q: %w", text, err)
			}
			token.WriteString(quoted)
			i += len(quoted)
		case text[i] == ' ':
			if token.Len() > 0 {
				tokens = append(tokens, token.String())
				token.Reset()
			}
			i++
		default:
			token.WriteByte(text[i])
			i++
		}
	}
	if token.Len() > 0 {
		tokens = append(tokens, token.String())
	}
	return tokens, nil
}

// String returns the line as it is written in a script.
func (l line) String() string {
	var b strings.Builder
	if l.joined {
		b.WriteByte('&')
	}
	fmt.Fprintf(&b, "%s %s", l.conn, l.opString())
	if l.deviation != "" {
		b.WriteString(" @" + l.deviation)
	}
	return b.String()
}

func (l line) opString() string {
	parts := append([]string{l.verb}, l.args...)
	for _, key := range l.order {
		parts = append(parts, key+"="+l.keys[key])
	}
	for i, op := range l.ops {
		if i > 0 {
			parts = append(parts, ";")
		}
		parts = append(parts, op.opString())
	}
	return strings.Join(parts, " ")
}

// format returns a script's lines as text.
func format(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

// unquote returns the text of a value, and whether it is null.
func unquote(value string) (text string, null bool) {
	if value == "null" {
		return "", true
	}
	if strings.HasPrefix(value, `"`) {
		if s, err := strconv.Unquote(value); err == nil {
			return s, false
		}
	}
	return value, false
}
