package auth

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Numbers of GeneralName (RFC 5280, section 4.2.1.6).
const (
	nameEmail     = 1
	nameDNS       = 2
	nameDirectory = 4
	nameURI       = 6
	nameIP        = 7
	nameOID       = 8
)

// rfc2253Keywords are the attribute types that Java writes as a word in this form; others are numbers
// (sun.security.x509.AVAKeyword).
var rfc2253Keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
	"2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// errName means DER that is no distinguished name.
var errName = errors.New("it is no distinguished name")

// javaName writes a distinguished name as javax.security.auth.x500.X500Principal.getName does, the one form in which an
// ACL and the superUser name it: RFC 2253, the last attribute first, without blanks.
func javaName(der []byte) (string, error) {
	var sets []asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &sets); err != nil || len(rest) > 0 {
		return "", errName
	}
	parts := make([]string, 0, len(sets))
	for _, set := range sets {
		part, err := javaAttributes(set)
		if err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	slices.Reverse(parts)
	return strings.Join(parts, ","), nil
}

// javaAttributes writes one set of attributes, nearly always of one.
func javaAttributes(set asn1.RawValue) (string, error) {
	if set.Class != asn1.ClassUniversal || set.Tag != asn1.TagSet {
		return "", errName
	}
	var parts []string
	for rest := set.Bytes; len(rest) > 0; {
		var a struct {
			Type  asn1.ObjectIdentifier
			Value asn1.RawValue
		}
		var err error
		if rest, err = asn1.Unmarshal(rest, &a); err != nil {
			return "", fmt.Errorf("%w: %w", errName, err)
		}
		parts = append(parts, javaAttribute(a.Type.String(), a.Value))
	}
	return strings.Join(parts, "+"), nil
}

// javaAttribute writes one attribute (sun.security.x509.AVA.toRFC2253String).
func javaAttribute(typ string, v asn1.RawValue) string {
	keyword, known := rfc2253Keywords[typ]
	if !known || !isText(v) {
		if !known {
			keyword = typ
		}
		return keyword + "=#" + hex.EncodeToString(v.FullBytes)
	}
	return keyword + "=" + escapeValue(javaText(v.Bytes))
}

// isText tells whether Java writes a value as text. (Quirk: whatever its encoding, the bytes are taken for UTF-8.)
func isText(v asn1.RawValue) bool {
	switch v.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagT61String, asn1.TagIA5String, asn1.TagGeneralString,
		asn1.TagBMPString:
		return v.Class == asn1.ClassUniversal
	}
	return false
}

// escapeValue puts a backslash before what has a meaning in a name, and before blanks at either end.
func escapeValue(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case strings.ContainsRune(`,=+<>#;"\`, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == 0:
			b.WriteString(`\00`)
		default:
			b.WriteRune(r)
		}
	}
	escaped := b.String()
	const blanks = " \r"
	inner := strings.TrimLeft(escaped, blanks)
	lead := escaped[:len(escaped)-len(inner)]
	core := strings.TrimRight(inner, blanks)
	b.Reset()
	for _, blank := range []byte(lead) {
		b.Write([]byte{'\\', blank})
	}
	b.WriteString(core)
	for _, blank := range []byte(inner[len(core):]) {
		b.Write([]byte{'\\', blank})
	}
	return b.String()
}

// oidAlternativeName is the extension of alternative names (RFC 5280, section 4.2.1.6).
var oidAlternativeName = asn1.ObjectIdentifier{2, 5, 29, 17}

// alternativeNames returns the alternative names of a type as java.security.cert.X509Certificate writes them; none if
// they cannot be read.
func alternativeNames(cert *x509.Certificate, typ int) []string {
	var found []string
	for _, e := range cert.Extensions {
		if !e.Id.Equal(oidAlternativeName) {
			continue
		}
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &names); err != nil || len(rest) > 0 {
			return nil
		}
		for _, n := range names {
			if n.Class != asn1.ClassContextSpecific || n.Tag != typ {
				continue
			}
			if text, ok := alternativeName(n); ok {
				found = append(found, text)
			}
		}
	}
	return found
}

// alternativeName writes one alternative name.
func alternativeName(n asn1.RawValue) (string, bool) {
	switch n.Tag {
	case nameEmail, nameDNS, nameURI:
		return string(n.Bytes), true
	case nameDirectory:
		text, err := javaName(n.Bytes)
		return text, err == nil
	case nameIP:
		a, ok := netip.AddrFromSlice(n.Bytes)
		if !ok {
			return "", false
		}
		return HostAddress(a), true
	case nameOID:
		var oid asn1.ObjectIdentifier
		der := append([]byte{asn1.TagOID, byte(len(n.Bytes))}, n.Bytes...)
		if len(n.Bytes) > 0x7f { // then the length would take more bytes, and no such identifier is in use
			return "", false
		}
		_, err := asn1.Unmarshal(der, &oid)
		return oid.String(), err == nil
	}
	return "", false
}
