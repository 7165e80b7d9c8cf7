package differential_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"zkd/jute"
)

// What differs between two servers in the answers to four-letter words.
var (
	hexNumber  = regexp.MustCompile(`0x[0-9a-f]+`)
	number     = regexp.MustCompile(`-?\d+(\.\d+)?`)
	address    = regexp.MustCompile(`/127\.0\.0\.1:\d+`)
	interest   = regexp.MustCompile(`\[\d\]`)
	expireDate = regexp.MustCompile(`expire at .*:`)
	tempPath   = regexp.MustCompile(`/[^\s]*/version-2`)
	sessionID  = regexp.MustCompile(`sid=0x([0-9a-f]+)`)
	clockField = regexp.MustCompile(`(queued|sent|est|lresp|llat|minlat|avglat|maxlat)=\d+`)
	lastZxid   = regexp.MustCompile(`lzxid=0x[0-9a-e][0-9a-f]*`) // none is 0xffffffffffffffff
)

// fourLetterWord sends a word, written as text or as hex:…, and returns the lines of the answer.
func fourLetterWord(addr, word string, sessions map[jute.SessionID]string) []string {
	c, err := dial(addr, answerWithin)
	if err != nil {
		return []string{err.Error()}
	}
	defer c.close()
	raw := []byte(word)
	if rest, isHex := strings.CutPrefix(word, "hex:"); isHex {
		raw, _ = hex.DecodeString(rest) // what is wrong in a script shows as a difference in nothing
	}
	if _, err := c.tcp.Write(raw); err != nil {
		return []string{err.Error()}
	}
	answer, err := io.ReadAll(c.in)
	if err != nil {
		return []string{readText(err)}
	}
	return normalWord(word, string(answer), sessions)
}

// normalWord replaces in an answer what may differ, and sorts what is in the order of a hash table.
func normalWord(word, answer string, sessions map[jute.SessionID]string) []string {
	if word == "cons" {
		return normalCons(answer, sessions)
	}
	answer = hexNumber.ReplaceAllStringFunc(answer, func(s string) string {
		id, _ := strconv.ParseUint(s[2:], 16, 64) // the pattern holds for it, too long is 0
		if name, ok := sessions[jute.SessionID(id)]; ok {
			return name
		}
		return "0xN"
	})
	answer = expireDate.ReplaceAllString(address.ReplaceAllString(answer, "/ADDR"), "expire at DATE:")
	lines := strings.Split(tempPath.ReplaceAllString(answer, "DIR"), "\n")
	switch word[:min(4, len(word))] {
	case "wchs", "wchc", "wchp", "ruok", "isro", "gtmk", "stmk", "srst", "crst":
		slices.Sort(lines)
	case "envi", "mntr":
		for i := range lines {
			lines[i], _, _ = strings.Cut(strings.SplitN(lines[i], "=", 2)[0], "\t")
		}
		slices.Sort(lines)
	case "conf":
		for i := range lines {
			if strings.HasPrefix(lines[i], "clientPort=") || strings.Contains(lines[i], "Size=") {
				lines[i] = number.ReplaceAllString(lines[i], "N")
			}
		}
	case "srvr", "stat":
		lines[0], _, _ = strings.Cut(lines[0], "-") // the build's hash and date follow
		for i := 1; i < len(lines); i++ {
			if !strings.HasPrefix(lines[i], "Node count") {
				lines[i] = number.ReplaceAllString(lines[i], "N")
			}
		}
	default:
		// A connection of an earlier script may not have ended yet.
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasSuffix(l, "sessionId: 0xN") })
		for i := range lines {
			lines[i] = number.ReplaceAllString(lines[i], "N")
		}
		slices.Sort(lines)
	}
	for i := range lines {
		lines[i] = fmt.Sprintf("%q", lines[i])
	}
	return slices.Compact(lines) // how many buckets of sessions there are is a matter of time
}

// normalCons returns the lines of the script's own sessions, without what depends on the moment: when the client has
// its reply, the real server may have counted the packet and waited for the next one, or not yet.
func normalCons(answer string, sessions map[jute.SessionID]string) []string {
	var lines []string
	for line := range strings.Lines(answer) {
		sid := sessionID.FindStringSubmatch(line)
		if sid == nil {
			continue
		}
		id, _ := strconv.ParseUint(sid[1], 16, 64) // the pattern holds for it
		name, ok := sessions[jute.SessionID(id)]
		if !ok {
			continue
		}
		line = interest.ReplaceAllString(address.ReplaceAllString(line, "/ADDR"), "[N]")
		line = strings.Replace(line, sid[0], "sid="+name, 1)
		line = lastZxid.ReplaceAllString(clockField.ReplaceAllString(line, "$1=N"), "lzxid=0xN")
		lines = append(lines, fmt.Sprintf("%q", line))
	}
	slices.Sort(lines)
	return lines
}
