package jute

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestMalformedUTF8IsReplacedAsByJava holds textOf against what Java 17's new String(bytes, UTF_8) gave for the same
// bytes. A line of the file is either the bytes and their text, or two first bytes and the checksum over all that may
// follow them.
func TestMalformedUTF8IsReplacedAsByJava(t *testing.T) {
	file, err := os.Open("testdata/utf8_java.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read
	texts, sums := 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case words[0] == "#":
		case len(words) == 2:
			texts++
			if got := hex.EncodeToString([]byte(textOf(unhex(t, words[0])))); got != words[1] {
				t.Errorf("%s: got %s, Java has %s", words[0], got, words[1])
			}
		case len(words) == 3 && words[1] == "crc":
			sums++
			if got := fmt.Sprintf("%08x", checksumAfter(t, unhex(t, words[0]))); got != words[2] {
				t.Errorf("%s and what may follow: checksum %s, Java has %s", words[0], got, words[2])
			}
		default:
			t.Fatalf("line %q", lines.Text())
		}
	}
	if texts < 900 || sums < 800 {
		t.Errorf("only %d texts and %d checksums in the file", texts, sums)
	}
}

// checksumAfter returns the checksum over the texts of start followed by every one and two bytes of the set, each
// text with its length before it.
func checksumAfter(t *testing.T, start []byte) uint32 {
	t.Helper()
	// The borders of every class of bytes in UTF-8, in the order in which the file was made.
	set := unhex(t, "00417f808f909fa0bfc0c1c2dfe0e1ecedeeeff0f1f3f4f5f8fbfcfeff")
	sum := uint32(0)
	add := func(tail ...byte) {
		text := textOf(append(start[:2:2], tail...))
		sum = crc32.Update(sum, crc32.IEEETable, append([]byte{byte(len(text))}, text...))
	}
	for _, x := range set {
		add(x)
	}
	for _, x := range set {
		for _, y := range set {
			add(x, y)
		}
	}
	return sum
}

// unhex returns the bytes that s spells.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTextIsAViewUnlessMalformed(t *testing.T) {
	frame := []byte("abc")
	view, copied := textOf(frame), textOf([]byte("ab\xff"))
	frame[0] = 'x'
	if view != "xbc" {
		t.Errorf("valid text is a copy: %q", view)
	}
	if copied != "ab\ufffd" || !utf8.ValidString(copied) {
		t.Errorf("malformed text is %q", copied)
	}
}

// TestEchoWritesSurrogatePairs holds the replies against the frames of a real 3.9.5 for the same text.
func TestEchoWritesSurrogatePairs(t *testing.T) {
	const smile, smileID = "/\U0001F600", "\U0001F600:h"
	acl := ACL{Perms: PermAll, ID: ID{Scheme: "digest", ID: smileID}}
	clients := []ClientInfo{{AuthScheme: "digest", User: "\U0001F600"}}
	tests := []struct {
		name string
		rec  record
		want string // what the encoding begins with
	}{
		{"sync", &SyncResponse{Path: smile}, "000000072feda0bdedb880"},
		{"sync of null", &SyncResponse{Nulls: 1}, "ffffffff"},
		{"basic plane", &SyncResponse{Path: "/\uffee\u00e4\ufffd"}, "000000092fefbfaec3a4efbfbd"},
		{"mixed", &SyncResponse{Path: "\u00e4\U0010FFFF\U00010000z"}, "0000000fc3a4edafbfedbfbfeda080edb0807a"},
		{
			"event", &WatcherEvent{Type: EventNodeDeleted, State: StateConnected, Path: smile},
			"0000000200000003000000072feda0bdedb880",
		},
		{"whoAmI", &WhoAmIResponse{ClientInfo: clients}, "000000010000000664696765737400000006eda0bdedb880"},
		{
			"getACL", &GetACLResponse{ACL: []ACL{acl}},
			"000000010000001f0000000664696765737400000008eda0bdedb8803a68",
		},
		{"an ACL by itself stays UTF-8", &acl, "0000001f0000000664696765737400000006f09f98803a68"},
	}
	for _, test := range tests {
		if got := hex.EncodeToString(test.rec.Append(nil)); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}
