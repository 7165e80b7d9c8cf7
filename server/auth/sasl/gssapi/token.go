package gssapi

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/types"
)

// oidKerberos is the mechanism 1.2.840.113554.1.2.2 in DER, tag and length included.
var oidKerberos = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02}

// Kinds of initial tokens (RFC 4121, section 4.1).
var (
	kindRequest = []byte{0x01, 0x00}
	kindReply   = []byte{0x02, 0x00}
)

// errFrame means an initial token that is not framed as one of Kerberos.
var errFrame = errors.New("token is no initial token of Kerberos")

// unframe takes the frame of RFC 2743, section 3.1, off an initial token of this kind.
func unframe(token, kind []byte) ([]byte, error) {
	const application0 = 0x60
	if len(token) < 2 || token[0] != application0 {
		return nil, errFrame
	}
	length, rest := int(token[1]), token[2:]
	if length >= 0x80 {
		n := length - 0x80
		if n == 0 || n > 4 || n > len(rest) {
			return nil, errFrame
		}
		length = 0
		for _, b := range rest[:n] {
			length = length<<8 | int(b)
		}
		rest = rest[n:]
	}
	head := append(append([]byte{}, oidKerberos...), kind...)
	if length != len(rest) || len(rest) < len(head) || string(rest[:len(head)]) != string(head) {
		return nil, errFrame
	}
	return rest[len(head):], nil
}

// framed puts the frame around an initial token.
func framed(kind, body []byte) []byte {
	length := len(oidKerberos) + len(kind) + len(body)
	b := []byte{0x60}
	switch {
	case length < 0x80:
		b = append(b, byte(length))
	case length < 0x100:
		b = append(b, 0x81, byte(length))
	default: // the answers of an acceptor are a few hundred bytes
		b = append(b, 0x82, byte(length>>8), byte(length))
	}
	return append(append(append(b, oidKerberos...), kind...), body...)
}

// Wrap tokens (RFC 4121, section 4.2.6.2).
const (
	wrapHeaderBytes = 16

	flagFromAcceptor   = 1
	flagSealed         = 2
	flagAcceptorSubkey = 4
)

// Uses of a key (RFC 4121, section 2).
const (
	usageAcceptorSeal  = 22
	usageInitiatorSeal = 24
)

// Why a wrap token is refused.
var (
	errWrapHeader = errors.New("token is no wrap token of the other end")
	errWrapSealed = errors.New("token is encrypted, where only its integrity is to be protected")
	errWrapSum    = errors.New("token has the wrong checksum")
)

// wrap makes a token of the acceptor that is not encrypted. flags are flagAcceptorSubkey or none.
func wrap(key types.EncryptionKey, flags byte, sequence uint64, message []byte) ([]byte, error) {
	return wrapFor(key, usageAcceptorSeal, flags|flagFromAcceptor, sequence, message)
}

// wrapFor makes a token that is not encrypted.
func wrapFor(key types.EncryptionKey, usage uint32, flags byte, sequence uint64, message []byte) ([]byte, error) {
	header := wrapHeader(flags, sequence)
	sum, err := checksum(key, usage, message, header)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(header[4:], uint16(len(sum))) //nolint:gosec // 12 to 24 bytes
	return append(append(header, message...), sum...), nil
}

// unwrap returns the message of a token of the initiator that is not encrypted.
func unwrap(key types.EncryptionKey, flags byte, token []byte) ([]byte, error) {
	return unwrapFor(key, usageInitiatorSeal, flags, token)
}

// unwrapFor returns the message of a token that is not encrypted, and has just these flags.
func unwrapFor(key types.EncryptionKey, usage uint32, flags byte, token []byte) ([]byte, error) {
	if len(token) < wrapHeaderBytes || token[0] != 0x05 || token[1] != 0x04 || token[3] != 0xff {
		return nil, errWrapHeader
	}
	if token[2]&flagSealed != 0 {
		return nil, errWrapSealed
	}
	if token[2] != flags {
		return nil, errWrapHeader
	}
	body := token[wrapHeaderBytes:]
	extra := int(binary.BigEndian.Uint16(token[4:]))
	if extra > len(body) {
		return nil, errWrapHeader
	}
	if rotation := int(binary.BigEndian.Uint16(token[6:])); rotation > 0 && len(body) > 0 {
		rotation %= len(body)
		body = append(append([]byte{}, body[rotation:]...), body[:rotation]...)
	}
	message, sum := body[:len(body)-extra], body[len(body)-extra:]
	expected, err := checksum(key, usage, message, wrapHeader(flags, binary.BigEndian.Uint64(token[8:])))
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(sum, expected) != 1 {
		return nil, errWrapSum
	}
	return message, nil
}

// wrapHeader is a header as checksums have it, with the length of the checksum and the rotation left out.
func wrapHeader(flags byte, sequence uint64) []byte {
	header := make([]byte, wrapHeaderBytes)
	copy(header, []byte{0x05, 0x04, flags, 0xff})
	binary.BigEndian.PutUint64(header[8:], sequence)
	return header
}

// checksum is of the message and the header, with a key derived for the use.
func checksum(key types.EncryptionKey, usage uint32, message, header []byte) ([]byte, error) {
	etype, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	return etype.GetChecksumHash(key.KeyValue, append(append([]byte{}, message...), header...), usage)
}
