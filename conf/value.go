package conf

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// parse reads s as k's kind says; ok is false when s is not what k.allowed describes. The blanks around s are already
// removed.
func (k *key) parse(s string) (v value, ok bool) {
	v.text = s
	switch k.kind {
	case kindText, kindPath, kindMember:
		return v, true
	case kindNumber, kindPort, kindHours, kindProperty, kindMillis, kindKibibyte, kindSize:
		if v.num, ok = k.parseNumber(s); !ok {
			return v, false
		}
	case kindDecimal:
		ratio, err := strconv.ParseFloat(s, 64)
		v.ratio, ok = ratio, err == nil && ratio >= 0 && ratio <= 1e9
		return v, ok
	case kindBoolean:
		v.flag = strings.EqualFold(s, "true")
		return v, v.flag || strings.EqualFold(s, "false")
	case kindYesNo:
		v.flag = s == "yes"
		return v, v.flag || s == "no"
	case kindChoice:
		return v, slices.Contains(k.choices, s)
	case kindWord:
		fits := func(choice string) bool { return strings.EqualFold(choice, s) }
		i := slices.IndexFunc(k.choices, fits)
		if i < 0 {
			return v, false
		}
		v.text = k.choices[i]
		return v, true
	case kindList:
		v.list = splitList(s)
		return v, true
	}
	lowest, highest := k.bounds()
	if v.num < lowest || v.num > highest {
		return v, false
	}
	k.scale(&v)
	return v, true
}

// parseNumber reads an integer as ZooKeeper reads this key: with Integer.parseInt what stands in zoo.cfg alone, with
// Integer.getInteger what is also a JVM property.
func (k *key) parseNumber(s string) (int64, bool) {
	if k.property == "" || k.kind == kindNumber {
		return parseDecimal(s)
	}
	return decodeJava(s)
}

// scale turns the number of v into the unit that fields have.
func (k *key) scale(v *value) {
	switch k.kind {
	case kindMillis:
		v.span = time.Duration(v.num) * time.Millisecond
	case kindHours:
		v.span = time.Duration(v.num) * time.Hour
	case kindKibibyte:
		v.num *= 1024
	}
}

// parseDecimal reads what Java's Long.parseLong reads: an optional sign and ASCII digits.
func parseDecimal(s string) (int64, bool) {
	digits := strings.TrimPrefix(strings.TrimPrefix(s, "-"), "+")
	if !isDigits(digits) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// decodeJava reads what Java's Long.decode reads, which Integer.getInteger uses for properties: an optional sign, then
// 0x, 0X or # for hexadecimal, a leading 0 for octal, else decimal.
func decodeJava(s string) (int64, bool) {
	sign, rest := "", s
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		sign, rest = s[:1], s[1:]
	}
	base := 10
	switch {
	case strings.HasPrefix(rest, "0x"), strings.HasPrefix(rest, "0X"):
		base, rest = 16, rest[2:]
	case strings.HasPrefix(rest, "#"):
		base, rest = 16, rest[1:]
	case len(rest) > 1 && rest[0] == '0':
		base, rest = 8, rest[1:]
	}
	if rest == "" || rest[0] == '-' || rest[0] == '+' || strings.Contains(rest, "_") {
		return 0, false
	}
	n, err := strconv.ParseInt(sign+rest, base, 64)
	return n, err == nil
}

// splitList cuts s at commas and drops blanks and empty words.
func splitList(s string) []string {
	var words []string
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

// trimJava removes what Java's String.trim removes: every character up to the blank, at both ends.
func trimJava(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}
