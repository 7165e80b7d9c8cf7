package acl

import (
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
)

// x500Keywords are the attribute names that Java's X500Principal knows; others must be object identifiers.
var x500Keywords = []string{
	"CN", "C", "L", "S", "ST", "O", "OU", "T", "IP", "STREET", "DC", "DNQUALIFIER", "DNQ", "SURNAME", "GIVENNAME",
	"INITIALS",
	"GENERATION", "EMAIL", "EMAILADDRESS", "UID", "SERIALNUMBER",
}

// validX500Name reports whether id is a distinguished name (X509AuthenticationProvider.isValid, which asks
// javax.security.auth.x500.X500Principal): attributes "name=value" with ',', ';' or '+' between them. The empty name is
// one, too. What it takes is what sun.security.x509.X500Name.parseDN takes, which cuts the text at separators before it
// reads it, with rules of its own for quotes and backslashes.
func validX500Name(id string) bool {
	if id == "" {
		return true
	}
	begin, from, quotes := 0, 0, 0
	for i := 0; i < len(id); i++ {
		if id[i] != ',' && id[i] != ';' {
			continue
		}
		quotes += countQuotes(id[from:i])
		if quotes != 1 && !isEscaped(id, from, i) {
			if !validRDN(id[begin:i]) {
				return false
			}
			begin, quotes = i+1, 0
		}
		from = i + 1
	}
	return validRDN(id[begin:])
}

// countQuotes counts the quotes that no backslash precedes.
func countQuotes(s string) int {
	count, backslashes := 0, 0
	for i := 0; i < len(s); i++ {
		if s[i] == '"' && backslashes%2 == 0 {
			count++
		}
		backslashes++
		if s[i] != '\\' {
			backslashes = 0
		}
	}
	return count
}

// isEscaped reports whether the separator at i does not count. (Quirk: behind two backslashes all of them since from
// are counted, wherever they are.)
func isEscaped(s string, from, i int) bool {
	if i == 0 || s[i-1] != '\\' {
		return false
	}
	if i == 1 || s[i-2] != '\\' {
		return true
	}
	return from < i && strings.Count(s[from:i], `\`)%2 != 0
}

// validRDN reports whether s is attributes with '+' between them (sun.security.x509.RDN).
func validRDN(s string) bool {
	begin, from, quotes := 0, 0, 0
	for i := 0; i < len(s); i++ {
		if s[i] != '+' {
			continue
		}
		quotes += countQuotes(s[from:i])
		if i > 0 && s[i-1] != '\\' && quotes != 1 {
			if !validAttribute(s[begin:i]) {
				return false
			}
			begin, quotes = i+1, 0
		}
		from = i + 1
	}
	return validAttribute(s[begin:])
}

// validAttribute reports whether s is a known attribute name or an object identifier, '=', and a value
// (sun.security.x509.AVA).
func validAttribute(s string) bool {
	name, value, found := strings.Cut(s, "=")
	if !found || !validKeyword(name) {
		return false
	}
	value = strings.TrimLeft(value, " \n")
	switch {
	case value == "":
		return true
	case value[0] == '#':
		return validHexValue(value[1:])
	case value[0] == '"':
		return validQuoted(value[1:])
	}
	return validValue(value)
}

// validKeyword reports whether name is the name or the number of an attribute (sun.security.x509.AVAKeyword.getOID).
func validKeyword(name string) bool {
	name = strings.TrimFunc(strings.ToUpper(name), func(r rune) bool { return r <= ' ' })
	if slices.Contains(x500Keywords, name) {
		return true
	}
	return validOID(strings.TrimPrefix(name, "OID."))
}

// oidComponentsMax bounds what is read of a number as long as a request may be.
const oidComponentsMax = 1024

// validOID reports whether s is an object identifier (sun.security.util.ObjectIdentifier).
func validOID(s string) bool {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return false
	}
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > oidComponentsMax {
		return false
	}
	first := int64(0)
	for i, part := range parts {
		n, ok := new(big.Int).SetString(part, 10)
		switch {
		case len(part) > oidComponentsMax, !ok, n.Sign() < 0, i == 0 && n.Cmp(big.NewInt(2)) > 0:
			return false
		case i == 0:
			first = n.Int64()
		case i == 1 && first < 2 && n.Cmp(big.NewInt(39)) > 0:
			return false
		}
	}
	return true
}

// Characters of values: those that a backslash may precede, and those that one must.
const (
	escapable   = ",=\n+<>#;\\\" "
	mustEscape  = `,+<>;"`
	terminators = ",+;"
)

// validHexValue reports whether s is a value in hexadecimal digits: one value of DER, or of BER with its length given.
func validHexValue(s string) bool {
	if end := strings.IndexAny(s, terminators); end >= 0 {
		s = s[:end]
	}
	der, err := hex.DecodeString(s)
	if err != nil || len(der) < 2 {
		return false
	}
	length, rest := int(der[1]), der[2:]
	if length >= 0x80 {
		n := length - 0x80
		if n == 0 || n > 4 || n > len(rest) {
			return false
		}
		length = 0
		for _, b := range rest[:n] {
			length = length<<8 | int(b)
		}
		rest = rest[n:]
	}
	return length == len(rest)
}

// validQuoted reports whether s is a value up to a quote, with nothing but blanks behind it.
func validQuoted(s string) bool {
	for i := 0; i < len(s); {
		switch s[i] {
		case '"':
			return strings.Trim(s[i+1:], " \n") == ""
		case '\\':
			n := escapeLength(s[i+1:])
			if n == 0 {
				return false
			}
			i += 1 + n
		default:
			i++
		}
	}
	return false
}

// validValue reports whether s begins with a value without quotes; what comes behind a separator in it is not looked
// at (quirk).
func validValue(s string) bool {
	for i := 0; i < len(s); {
		switch {
		case i > 0 && strings.IndexByte(terminators, s[i]) >= 0:
			return true
		case s[i] == '\\':
			n := escapeLength(s[i+1:])
			if n == 0 {
				return false
			}
			i += 1 + n
		case strings.IndexByte(mustEscape, s[i]) >= 0:
			return false
		default:
			i++
		}
	}
	return true
}

// escapeLength is how many bytes of s, which is behind a backslash, belong to it; 0 if they must not be there.
func escapeLength(s string) int {
	switch {
	case s == "":
		return 0
	case isHexDigit(s[0]):
		if len(s) < 2 || !isHexDigit(s[1]) {
			return 0
		}
		return 2
	case strings.IndexByte(escapable, s[0]) >= 0:
		return 1
	}
	return 0
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
