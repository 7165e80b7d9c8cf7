package sasl

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// rule is one rule of auth_to_local: DEFAULT, or RULE:[n:format](match)s/from/to/g.
type rule struct {
	isDefault bool
	parts     int    // components of the principals that it is for
	format    []part // of the text that match and from are for
	match     *regexp.Regexp
	from      *regexp.Regexp
	to        []part
	all       bool // replace every occurrence
}

// part is literal text, or what stands for a number: a component of a principal, a group of an expression.
type part struct {
	text   string
	number int // -1 for literal text
}

// ruleForm is KerberosName.ruleParser.
var ruleForm = regexp.MustCompile(
	`^\s*(?:(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?)`,
)

// Groups of ruleForm.
const (
	groupDefault = iota + 1
	groupParts
	groupFormat
	groupMatch
	groupFrom
	groupTo
	groupAll
)

// parseRules is KerberosName.parseRules. What would fail a login on 3.9.5 later, such as a component that a principal
// has not, is an error here, and so are expressions that only Java has (look-ahead, back references).
func parseRules(text string) ([]rule, error) {
	var rules []rule
	for rest := strings.TrimSpace(text); rest != ""; {
		m := ruleForm.FindStringSubmatchIndex(rest)
		if m == nil {
			return nil, fmt.Errorf("invalid rule %q; write DEFAULT or RULE:[n:format](match)s/from/to/g", rest)
		}
		group := func(i int) (string, bool) {
			if m[2*i] < 0 {
				return "", false
			}
			return rest[m[2*i]:m[2*i+1]], true
		}
		r, err := newRule(group)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", rest[:m[1]], err)
		}
		rules = append(rules, r)
		rest = strings.TrimRight(rest[m[1]:], " \t\r\n")
	}
	return rules, nil
}

// newRule makes a rule of the groups of ruleForm.
func newRule(group func(int) (string, bool)) (r rule, err error) {
	if _, ok := group(groupDefault); ok {
		return rule{isDefault: true}, nil
	}
	count, _ := group(groupParts)
	if r.parts, err = strconv.Atoi(count); err != nil {
		return r, fmt.Errorf("the number of components %q is no number", count)
	}
	format, _ := group(groupFormat)
	if r.format, err = parseFormat(format, r.parts); err != nil {
		return r, err
	}
	if match, ok := group(groupMatch); ok {
		if r.match, err = regexp.Compile(`\A(?:` + match + `)\z`); err != nil {
			return r, err
		}
	}
	from, ok := group(groupFrom)
	if !ok {
		return r, nil
	}
	if r.from, err = regexp.Compile(from); err != nil {
		return r, err
	}
	to, _ := group(groupTo)
	r.to, err = parseReplacement(to, r.from.NumSubexp())
	_, r.all = group(groupAll)
	return r, err
}

// parseFormat reads the text of a rule in which $n stands for a component and $0 for the realm.
func parseFormat(format string, components int) ([]part, error) {
	var parts []part
	for format != "" {
		text, rest, found := strings.Cut(format, "$")
		parts = append(parts, part{text: text, number: -1})
		if !found {
			break
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		number, err := strconv.Atoi(rest[:digits])
		if err != nil || number > components {
			return nil, fmt.Errorf("$%s in %q is no component: $0 is the realm, $1 to $%d the others",
				rest[:digits], format, components)
		}
		parts = append(parts, part{number: number})
		format = rest[digits:]
	}
	return parts, nil
}

// parseReplacement reads the text that replaces a match as java.util.regex.Matcher does: $n is a group, of as many
// digits as there are groups, and a backslash makes the next character literal.
func parseReplacement(text string, groups int) ([]part, error) {
	var parts []part
	literal := func(s string) { parts = append(parts, part{text: s, number: -1}) }
	for text != "" {
		at := strings.IndexAny(text, `$\`)
		if at < 0 {
			literal(text)
			return parts, nil
		}
		literal(text[:at])
		rest := text[at+1:]
		if text[at] == '\\' {
			if rest == "" {
				return nil, fmt.Errorf("the replacement ends with a backslash")
			}
			literal(rest[:1])
			text = rest[1:]
			continue
		}
		number, digits := 0, 0
		for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
			next := number*10 + int(rest[digits]-'0')
			if digits > 0 && next > groups {
				break
			}
			number = next
			digits++
		}
		if digits == 0 || number > groups {
			return nil, fmt.Errorf("the replacement names a group that the expression has not")
		}
		parts = append(parts, part{number: number})
		text = rest[digits:]
	}
	return parts, nil
}

// apply is KerberosName.Rule.apply: parts are the realm and the components of a principal. ok is false where the rule
// is not for it.
func (r *rule) apply(parts []string, defaultRealm string) (name string, ok bool) {
	if r.isDefault {
		return parts[1], parts[0] == defaultRealm
	}
	if len(parts)-1 != r.parts {
		return "", false
	}
	base := fill(r.format, func(number int) string { return parts[number] })
	if r.match != nil && !r.match.MatchString(base) {
		return "", false
	}
	if r.from == nil {
		return base, true
	}
	return r.replace(base), true
}

// replace puts to in the place of from, once or everywhere.
func (r *rule) replace(base string) string {
	times := 1
	if r.all {
		times = -1
	}
	var b strings.Builder
	end := 0
	for _, m := range r.from.FindAllStringSubmatchIndex(base, times) {
		b.WriteString(base[end:m[0]])
		b.WriteString(fill(r.to, func(number int) string {
			if m[2*number] < 0 {
				return ""
			}
			return base[m[2*number]:m[2*number+1]]
		}))
		end = m[1]
	}
	b.WriteString(base[end:])
	return b.String()
}

// fill writes parts out.
func fill(parts []part, value func(number int) string) string {
	var b strings.Builder
	for _, p := range parts {
		if p.number < 0 {
			b.WriteString(p.text)
		} else {
			b.WriteString(value(p.number))
		}
	}
	return b.String()
}
