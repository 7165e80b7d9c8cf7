package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// The handshake; docs/formats/peer.md draws it. The head of a hello and of an answer never change; later versions add
// fields to the end of the bodies.
const (
	versionOldest uint16 = 1
	versionNewest uint16 = 3
	// versionPieces is the first in which large frames come in pieces, and others may pass them.
	versionPieces uint16 = 2

	helloHeadBytes  = 14
	answerHeadBytes = 12
	// handshakeBytesMax bounds what follows a head. Version 1 needs at most 18,742 and 17,193 bytes.
	handshakeBytesMax = 20 << 10
	textBytesMax      = 512
	foundersBytesMax  = 16 << 10
	nameBytesMax      = 255
	whereBytesMax     = 2 << 10
	sumBytes          = 4
)

// magic begins every connection. Its first byte begins no TLS record, no text, and nothing that ZooKeeper sends.
var magic = [8]byte{0xF5, 'z', 'k', 'd', 'p', 'e', 'e', 'r'}

// castagnoli is the polynomial of all checksums.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// purpose is what a connection is for.
type purpose uint8

const (
	forMessages purpose = 1
	forSnapshot purpose = 2
	// forCluster asks for nothing but the answer, which is always a refusal.
	forCluster purpose = 3
)

// hello is what the dialing side says.
type hello struct {
	oldest, newest uint16 // versions that it speaks
	cluster        [16]byte
	from, to       uint64
	processID      uint64
	purpose        purpose
	name           string
	founders       string // Options.Founders
	levels         levels
	where          []string // Options.Where
	standing       Standing
}

// levels are the feature levels of a program.
type levels struct {
	able   uint16 // the highest that it can do
	agreed uint16 // the highest to which it agrees that the ensemble is raised
}

// levelUnsaid is the level of a program that says none.
const levelUnsaid = 1

// append adds the levels to a hello or an answer.
func (l levels) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, l.able)
	return binary.BigEndian.AppendUint16(b, l.agreed)
}

// encode returns the hello's bytes.
func (h *hello) encode() []byte {
	b := bytes.Clone(magic[:])
	b = binary.BigEndian.AppendUint16(b, h.oldest)
	b = binary.BigEndian.AppendUint16(b, h.newest)
	b = append(b, 0, 0)
	b = append(b, h.cluster[:]...)
	b = binary.BigEndian.AppendUint64(b, h.from)
	b = binary.BigEndian.AppendUint64(b, h.to)
	b = binary.BigEndian.AppendUint64(b, h.processID)
	b = append(b, byte(h.purpose))
	b = appendText8(b, h.name)
	b = appendFounders(b, h.founders)
	b = h.levels.append(b)
	b = appendWhere(b, h.where)
	b = append(b, byte(h.standing))
	return seal(b, helloHeadBytes)
}

// readHello reads a hello. An error is a *foreignError if the other side does not speak this protocol.
func readHello(r io.Reader) (*hello, error) {
	var head [helloHeadBytes]byte
	body, err := readSealed(r, head[:])
	if err != nil {
		return nil, err
	}
	h := &hello{
		oldest: binary.BigEndian.Uint16(head[8:]),
		newest: binary.BigEndian.Uint16(head[10:]),
	}
	f := fields{rest: body}
	f.cluster(&h.cluster)
	h.from, h.to, h.processID = f.uint64(), f.uint64(), f.uint64()
	h.purpose = purpose(f.uint8())
	h.name = f.text(int(f.uint8()))
	h.founders = f.text(int(f.uint16()))
	h.levels = f.levels()
	if len(f.rest) > 0 { // older peers say nothing more
		h.where = f.addresses()
	}
	h.standing = f.standing()
	return h, f.err("hello")
}

// answer is what the accepting side says. After a refusal it closes the connection.
type answer struct {
	version   uint16 // that both will speak; 0 with a refusal
	code      Code
	cluster   [16]byte
	id        uint64
	processID uint64
	name      string
	text      string // for people
	// founders is Options.Founders.
	founders string
	levels   levels
	standing Standing
}

// encode returns the answer's bytes.
func (a *answer) encode() []byte {
	b := bytes.Clone(magic[:])
	b = binary.BigEndian.AppendUint16(b, a.version)
	b = append(b, 0, 0)
	b = append(b, byte(a.code))
	b = append(b, a.cluster[:]...)
	b = binary.BigEndian.AppendUint64(b, a.id)
	b = binary.BigEndian.AppendUint64(b, a.processID)
	b = appendText8(b, a.name)
	text := a.text[:min(len(a.text), textBytesMax)]
	b = binary.BigEndian.AppendUint16(b, uint16(len(text)))
	b = append(b, text...)
	b = appendFounders(b, a.founders)
	b = a.levels.append(b)
	b = append(b, byte(a.standing))
	return seal(b, answerHeadBytes)
}

// readAnswer reads an answer. An error is a *foreignError if the other side does not speak this protocol.
func readAnswer(r io.Reader) (*answer, error) {
	var head [answerHeadBytes]byte
	body, err := readSealed(r, head[:])
	if err != nil {
		return nil, err
	}
	a := &answer{version: binary.BigEndian.Uint16(head[8:])}
	f := fields{rest: body}
	a.code = Code(f.uint8())
	f.cluster(&a.cluster)
	a.id, a.processID = f.uint64(), f.uint64()
	a.name = f.text(int(f.uint8()))
	a.text = f.text(int(f.uint16()))
	a.founders = f.text(int(f.uint16()))
	a.levels = f.levels()
	a.standing = f.standing()
	return a, f.err("answer")
}

// appendText8 adds a text with its length in one byte; what is beyond 255 bytes is cut off.
func appendText8(b []byte, text string) []byte {
	text = text[:min(len(text), nameBytesMax)]
	return append(append(b, byte(len(text))), text...)
}

// appendFounders adds a list with its length in two bytes; none is said if it is too long to be sent.
func appendFounders(b []byte, list string) []byte {
	if len(list) > foundersBytesMax {
		list = ""
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(list)))
	return append(b, list...)
}

// appendWhere adds addresses: their number in one byte, then each with its length in one. What does not fit is
// left out.
func appendWhere(b []byte, addresses []string) []byte {
	count, start := len(b), len(b)+1
	b = append(b, 0)
	for _, a := range addresses {
		if len(a) > nameBytesMax || b[count] == math.MaxUint8 || len(b)-start+1+len(a) > whereBytesMax {
			continue
		}
		b[count]++
		b = appendText8(b, a)
	}
	return b
}

// seal puts the number of bytes behind the head at the head's end, and adds the checksum of all.
func seal(b []byte, headBytes int) []byte {
	binary.BigEndian.PutUint16(b[headBytes-2:], uint16(len(b)-headBytes+sumBytes))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readSealed fills head and returns the body without its checksum. The magic is compared as soon as it has come.
func readSealed(r io.Reader, head []byte) ([]byte, error) {
	if n, err := io.ReadFull(r, head[:len(magic)]); err != nil {
		if n > 0 && !bytes.HasPrefix(magic[:], head[:n]) {
			return nil, &foreignError{head: bytes.Clone(head[:n])}
		}
		return nil, fmt.Errorf("read the handshake, %d bytes came: %w", n, err)
	}
	if !bytes.Equal(head[:len(magic)], magic[:]) {
		return nil, &foreignError{head: bytes.Clone(head[:len(magic)])}
	}
	if _, err := io.ReadFull(r, head[len(magic):]); err != nil {
		return nil, fmt.Errorf("read the head of the handshake: %w", noEOF(err))
	}
	length := int(binary.BigEndian.Uint16(head[len(head)-2:]))
	if length < sumBytes || length > handshakeBytesMax {
		return nil, fmt.Errorf("handshake of %d bytes, want %d to %d", length, sumBytes, handshakeBytesMax)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("read the handshake: %w", noEOF(err))
	}
	body, sum := body[:length-sumBytes], binary.BigEndian.Uint32(body[length-sumBytes:])
	got := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
	if got != sum {
		return nil, fmt.Errorf("handshake has checksum %08x, want %08x: it was damaged on the way", got, sum)
	}
	return body, nil
}

// noEOF turns the end of a connection in the middle of something into an error that says so.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fields reads fields one after the other; once one is missing all are zero.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.rest) {
		f.short, f.rest = true, nil
		return nil
	}
	taken := f.rest[:n]
	f.rest = f.rest[n:]
	return taken
}

func (f *fields) cluster(to *[16]byte) { copy(to[:], f.take(len(to))) }
func (f *fields) text(n int) string    { return string(f.take(n)) }

// addresses reads what appendWhere wrote.
func (f *fields) addresses() []string {
	var list []string
	left := whereBytesMax
	for n := f.uint8(); n > 0 && !f.short; n-- {
		a := f.text(int(f.uint8()))
		left -= 1 + len(a)
		f.short = f.short || left < 0 // nobody sends so much
		list = append(list, a)
	}
	return list
}

func (f *fields) uint8() uint8 {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) uint16() uint16 {
	if b := f.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (f *fields) uint64() uint64 {
	if b := f.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// levels reads the feature levels, which programs that know none do not say.
func (f *fields) levels() levels {
	if len(f.rest) == 0 {
		return levels{able: levelUnsaid, agreed: levelUnsaid}
	}
	return levels{able: f.uint16(), agreed: f.uint16()}
}

// standing reads how the other side stands, which older programs do not say.
func (f *fields) standing() Standing {
	if len(f.rest) == 0 {
		return Unsaid
	}
	return Standing(f.uint8())
}

// err tells whether a field was missing.
func (f *fields) err(what string) error {
	if f.short {
		return fmt.Errorf("the %s is too short for its fields", what)
	}
	return nil
}

// foreignError says that the other side speaks another protocol.
type foreignError struct{ head []byte }

// Error names the protocol, where its first bytes give it away.
func (e *foreignError) Error() string {
	return fmt.Sprintf("no zkd peer: the connection began with % x: %s", e.head, foreign(e.head))
}

// foreign guesses from its first bytes, at most 8, what the other side speaks, and says what to do.
func foreign(head []byte) string {
	has := func(prefix string) bool { return bytes.HasPrefix(head, []byte(prefix)) }
	switch {
	case has("\x00\x00\x00\x0b"), has("\x00\x00\x00\x10"): // LearnerHandler: QuorumPacket FOLLOWERINFO, OBSERVERINFO
		return "a server of Apache ZooKeeper, which cannot be in one ensemble with zkd: import its data instead"
	case has("\xff\xff\xff\xff\xff\xff\x00"): // QuorumCnxManager.PROTOCOL_VERSION_V1, _V2
		return "the election protocol of Apache ZooKeeper, which cannot be in one ensemble with zkd"
	case has("\xa0\xdb\xca\xfe\xca\xfe\x12\x34"): // QuorumAuth.QUORUM_AUTH_MAGIC_NUMBER
		return "SASL between servers of Apache ZooKeeper, which cannot be in one ensemble with zkd"
	case has("\x16\x03"):
		return "TLS, which this server does not use between servers: set sslQuorum=true on all"
	case has("\x15\x03"):
		return "a TLS alert: the other server wants TLS: set sslQuorum=true on all"
	case has("\x00\x00\x00") && len(head) == 8 && bytes.Equal(head[4:], []byte{0, 0, 0, 0}):
		return "a ZooKeeper client: it should connect to the client port"
	case has("GET ") || has("POST ") || has("HEAD "):
		return "HTTP: this is the port between servers"
	case len(head) >= 4 && isWord(head[:4]):
		return "text, perhaps a four-letter word: those belong to the client port"
	default:
		return "unknown bytes"
	}
}

// isWord says whether b is lower-case letters.
func isWord(b []byte) bool {
	for _, c := range b {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}
