package keystore

import (
	"encoding/asn1"
	"errors"
)

// BER leaves open what encoding/asn1, which reads DER, has settled: a length may be said by the end of the content, and
// a string of octets may be in pieces. Bouncy Castle and NSS write PKCS12 so, and Java reads it.

// The tags that matter (X.690).
const (
	tagConstructed = 0x20
	tagOctets      = 0x04
	tagLong        = 0x1f // all of these bits: the number of the tag is in the bytes that follow
	lengthLong     = 0x80 // with the number of the bytes that follow and say it, or with none: up to two zeros
)

// berDepthMax is how deep records may be in one another. Those of PKCS12 are not twenty deep.
const berDepthMax = 64

// errBER is for what is no record. Whoever reads it as DER says what is wrong.
var errBER = errors.New("no record of BER")

// definite returns a record with each length in front and each string of octets in one piece, and what is behind it as
// it is. What is no record is returned as it is.
func definite(ber []byte) []byte {
	der, rest, err := appendDefinite(nil, ber, 0)
	if err != nil {
		return ber
	}
	return append(der, rest...)
}

// appendDefinite appends the first record of ber, and returns what is behind it.
func appendDefinite(der, ber []byte, depth int) (_, rest []byte, err error) {
	if len(ber) < 2 || depth == berDepthMax || ber[0]&tagLong == tagLong {
		return nil, nil, errBER
	}
	tag, content, rest, open := ber[0], []byte(nil), []byte(nil), false
	if content, rest, open, err = berContent(ber[1:]); err != nil {
		return nil, nil, err
	}
	if tag&tagConstructed != 0 {
		if content, rest, err = definiteContent(content, rest, open, depth); err != nil {
			return nil, nil, err
		}
	} else if open {
		return nil, nil, errBER
	}
	if tag == tagOctets|tagConstructed {
		tag = tagOctets
		if content, err = octets(content); err != nil {
			return nil, nil, err
		}
	}
	raw := asn1.RawValue{Class: int(tag >> 6), Tag: int(tag & tagLong), IsCompound: tag&tagConstructed != 0,
		Bytes: content}
	record, err := asn1.Marshal(raw)
	if err != nil {
		return nil, nil, err
	}
	return append(der, record...), rest, nil
}

// berContent reads a length, and returns the content and what is behind it. open says that the length is not there: the
// content begins and ends in rest.
func berContent(b []byte) (content, rest []byte, open bool, err error) {
	n, b := int(b[0]), b[1:]
	if n == lengthLong {
		return nil, b, true, nil
	}
	if n > lengthLong {
		count := n - lengthLong
		if count > 4 || count > len(b) {
			return nil, nil, false, errBER
		}
		n = 0
		for _, digit := range b[:count] {
			n = n<<8 | int(digit)
		}
		b = b[count:]
	}
	if n > len(b) {
		return nil, nil, false, errBER
	}
	return b[:n], b[n:], false, nil
}

// definiteContent makes the records in a constructed one definite.
func definiteContent(content, behind []byte, open bool, depth int) (der, rest []byte, err error) {
	if open {
		content = behind
	}
	for len(content) > 0 {
		if open && len(content) > 1 && content[0] == 0 && content[1] == 0 {
			return der, content[2:], nil
		}
		if der, content, err = appendDefinite(der, content, depth+1); err != nil {
			return nil, nil, err
		}
	}
	if open {
		return nil, nil, errBER
	}
	return der, behind, nil
}

// octets joins the pieces of a string.
func octets(pieces []byte) ([]byte, error) {
	var joined []byte
	for len(pieces) > 0 {
		var piece []byte
		var err error
		if pieces, err = asn1.Unmarshal(pieces, &piece); err != nil {
			return nil, err
		}
		joined = append(joined, piece...)
	}
	return joined, nil
}
