package apply

import (
	"fmt"
	"strings"
	"testing"
)

// TestLongQuotaTextsAreNotRead: a text of a megabyte of pairs, which anybody may have written, is read as far as a
// quota's text reaches, and does not come back.
func TestLongQuotaTextsAreNotRead(t *testing.T) {
	var text strings.Builder
	text.WriteString("count=7,bytes=9=;countHardLimit=11")
	for i := 100_000; i > 0; i-- {
		fmt.Fprintf(&text, ";%07d=1", i)
	}
	text.WriteString(",byteHardLimit=13")
	s := ParseStatsTrack([]byte(text.String()))
	if s.Count != 7 || s.Bytes != 9 || s.CountHard != 11 || s.BytesHard != -1 {
		t.Errorf("the quota is read as %d, %d, %d, %d", s.Count, s.Bytes, s.CountHard, s.BytesHard)
	}
	for _, p := range s.others {
		if p.key != countHardKey && (len(p.key) != 7 || p.value != 1) {
			t.Errorf("half a pair is read: %v", p)
		}
	}
	if n := len(s.Append(nil)); n > statsTextMax+64 {
		t.Errorf("it is written again with %d bytes", n)
	}
	if s := ParseStatsTrack([]byte(strings.Repeat("9", statsTextMax+1))); len(s.others) != 0 {
		t.Errorf("a pair without an end: %v", s.others)
	}
}
