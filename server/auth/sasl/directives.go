package sasl

import (
	"errors"
	"strings"
)

// errDirectives means a response of DIGEST-MD5 that is no list of directives.
var errDirectives = errors.New("response is no list of directives")

// errTwice means a directive that was there already.
var errTwice = errors.New("response has a directive twice")

// directives are the values of a response of DIGEST-MD5 by the name of the directive, in small letters, without
// quotation marks.
type directives map[string][]byte

// known are the directives that com.sun.security.sasl.digest.DigestMD5Server reads; it passes over all others. Quirk:
// nonce-count is not what RFC 2831 calls it, which is nc, so the count that clients send is not looked at. It is part
// of the digest, though: only 00000001 gives the right one.
var known = map[string]bool{
	"username": true, "realm": true, "nonce": true, "cnonce": true, "nonce-count": true, "qop": true,
	"digest-uri": true, "response": true, "maxbuf": true, "charset": true, "cipher": true, "authzid": true,
	"auth-param": true,
}

// parseDirectives reads `key=value, key="value"` as DigestMD5Base.parseDirectives does: elements end at a comma or a
// blank, empty elements do not count, blanks may surround the equals sign, and the last element may be a key alone. The
// values are in memory of their own.
func parseDirectives(text []byte) (directives, error) {
	found := directives{}
	for i := skipBlanks(text, 0); i < len(text); {
		if text[i] == ',' {
			i = skipBlanks(text, i+1)
			continue
		}
		key, next, err := directiveKey(text, i)
		if err != nil {
			return nil, err
		}
		value := []byte{}
		if next < len(text) {
			if value, next, err = directiveValue(text, next); err != nil {
				return nil, err
			}
		}
		key = strings.ToLower(key)
		if known[key] {
			if _, twice := found[key]; twice {
				return nil, errTwice
			}
			found[key] = value
		}
		i = skipBlanks(text, next)
	}
	return found, nil
}

// directiveKey reads a key and its equals sign from i on, and returns where its value begins: at the end of the text if
// the key is all there is.
func directiveKey(text []byte, i int) (key string, next int, err error) {
	start := i
	for i < len(text) && text[i] != '=' && text[i] != ',' && !isBlank(text[i]) {
		i++
	}
	key = string(text[start:i])
	if i == len(text) {
		return key, i, nil
	}
	i = skipBlanks(text, i)
	if key == "" || i == len(text) || text[i] != '=' {
		return "", 0, errDirectives
	}
	i = skipBlanks(text, i+1)
	if i == len(text) {
		return "", 0, errDirectives
	}
	return key, i, nil
}

// directiveValue reads a value from i on, and returns where the next element may begin.
func directiveValue(text []byte, i int) (value []byte, next int, err error) {
	value = []byte{}
	if text[i] != '"' {
		for i < len(text) && text[i] != ',' && !isBlank(text[i]) {
			value = append(value, text[i])
			i++
		}
		return value, min(i+1, len(text)), nil
	}
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
		if i == len(text) {
			return nil, 0, errDirectives
		}
		value = append(value, text[i])
	}
	if i >= len(text) {
		return nil, 0, errDirectives
	}
	i++
	if i < len(text) && text[i] != ',' && !isBlank(text[i]) {
		return nil, 0, errDirectives
	}
	return value, min(i+1, len(text)), nil
}

// skipBlanks returns where from i on something else than a blank is.
func skipBlanks(text []byte, i int) int {
	for i < len(text) && isBlank(text[i]) {
		i++
	}
	return i
}

// isBlank tells whether c is linear white space.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
