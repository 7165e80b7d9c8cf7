package acl

import "strings"

// x500Keywords are the attribute names that Java's X500Principal knows; others must be object identifiers.
var x500Keywords = []string{
	"CN", "C", "L", "S", "ST", "O", "OU", "T", "IP", "STREET", "DC", "DNQUALIFIER", "DNQ", "SURNAME", "GIVENNAME",
	"INITIALS",
	"GENERATION", "EMAIL", "EMAILADDRESS", "UID", "SERIALNUMBER",
}

// validX500Name reports whether id is a distinguished name (X509AuthenticationProvider.isValid, which asks
// javax.security.auth.x500.X500Principal): attributes "name=value" separated by ',', ';' or '+'. The empty name is
// one, too.
func validX500Name(id string) bool {
	if strings.TrimSpace(id) == "" {
		return true
	}
	for rest := id; ; {
		end := attributeEnd(rest)
		if end < 0 || !validAttribute(rest[:end]) {
			return false
		}
		if end == len(rest) {
			return true
		}
		rest = rest[end+1:]
	}
}

// attributeEnd returns the index of the separator behind the first attribute of s, len(s) if it is the last, -1 if a
// quote or an escape is left open.
func attributeEnd(s string) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
			if i == len(s) {
				return -1
			}
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ';' || c == '+'):
			return i
		}
	}
	if quoted {
		return -1
	}
	return len(s)
}

// validAttribute reports whether s is a known attribute name or an object identifier, '=', and a value.
func validAttribute(s string) bool {
	name, _, found := strings.Cut(s, "=")
	name = strings.TrimSpace(name)
	if !found || name == "" {
		return false
	}
	for _, keyword := range x500Keywords {
		if strings.EqualFold(name, keyword) {
			return true
		}
	}
	if len(name) > 4 && strings.EqualFold(name[:4], "OID.") {
		name = name[4:]
	}
	return strings.Contains(name, ".") && strings.Trim(name, "0123456789.") == "" && !strings.Contains(name, "..") &&
		name[0] != '.' && name[len(name)-1] != '.'
}
