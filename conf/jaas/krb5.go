package jaas

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Kerberos is what a server needs of krb5.conf.
type Kerberos struct {
	DefaultRealm string        // default_realm of [libdefaults]; "" if it is not there
	ClockSkew    time.Duration // clockskew of [libdefaults]; 5 minutes if it is not there
}

// defaultClockSkew is that of MIT Kerberos and of Java.
const defaultClockSkew = 5 * time.Minute

// ParseKerberos reads a krb5.conf. Of settings that are there twice the first counts, as for MIT Kerberos; includes are
// passed over, as they are by Java. Its error names the line, without the name of the file.
func ParseKerberos(text []byte) (Kerberos, error) {
	k := Kerberos{ClockSkew: defaultClockSkew}
	if !utf8.Valid(text) {
		return k, errNotText
	}
	section := ""
	seen := map[string]bool{}
	number := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		number++
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section, _, _ = strings.Cut(name, "]")
			continue
		}
		key, value, found := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.Trim(strings.TrimSpace(value), `"`)
		comment := strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";")
		if section != "libdefaults" || comment || !found || seen[key] {
			continue
		}
		seen[key] = true
		switch key {
		case "default_realm":
			k.DefaultRealm = value
		case "clockskew":
			seconds, err := strconv.ParseUint(strings.TrimSuffix(value, "s"), 10, 31)
			if err != nil {
				return k, fmt.Errorf("line %d: clockskew must be a number of seconds", number)
			}
			k.ClockSkew = time.Duration(seconds) * time.Second
		}
	}
	return k, nil
}
