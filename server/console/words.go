package console

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"zkd/jute"
	"zkd/jute/client"
	"zkd/server/console/session"
	"zkd/server/console/values"
	"zkd/server/fourletter"
)

// plain is text of strangers in one line, in which nothing controls what is around it.
func plain(s string) string { return values.Plain(s, false) }

// buildText says what build this is. A toolchain that looked at no repository, as with -buildvcs=false, has left the
// commit out.
func buildText(version string) string {
	const commitShown = 12 // of its 40 digits
	switch {
	case version == "", version == "unknown":
		version = "built from sources without a version, by " + runtime.Version()
	case len(version) == 40:
		version = version[:commitShown]
	}
	return "zkd " + version + ", speaks as ZooKeeper " + fourletter.ZooKeeperVersion
}

// errClosed means that who shows no credential may not look at znodes.
var errClosed = errors.New("clients without a credential are not served here")

// explanations are what pages say of codes.
var explanations = map[jute.Code]string{
	jute.NoNode:                  "There is no such znode: it was deleted, or its name is another one.",
	jute.NoAuth:                  "The ACL does not allow that to whom you are. Sign in as somebody else.",
	jute.BadVersion:              "Somebody else has changed it meanwhile. Nothing was overwritten.",
	jute.NodeExists:              "There is a znode of that name already.",
	jute.NotEmpty:                "It has children, which would have to be deleted first.",
	jute.NoChildrenForEphemerals: "An ephemeral znode has no children.",
	jute.InvalidACL:              "The ACL is not valid: look at the schemes, and whether there is an entry at all.",
	jute.BadArguments:            "The server does not take that: look at the path, the kind, and the time to live.",
	jute.QuotaExceeded:           "A quota does not allow that.",
	jute.NotReadOnly:             "The server serves reads only: it has no leader.",
	jute.SessionClosedAuth:       "The server serves nobody who has not logged in. Sign in first.",
	jute.AuthFailed:              "The server does not accept the credential.",
	jute.Unimplemented:           "The server does not have that operation: it is too old, or it is switched off.",
	jute.ReconfigDisabled:        "Changes of members are switched off: set reconfigEnabled=true on the servers.",
	jute.NewConfigNoQuorum:       "The new members would have no majority that is up to date. Nothing was changed.",
	jute.ReconfigInProgress:      "Another change of members is under way.",
	jute.Throttled:               "The server has too much to do. Try again.",
}

// explain words an error for who has asked, with the status of the answer.
func explain(err error) (status int, why string) {
	code := session.CodeOf(err)
	switch {
	case code == jute.NoNode:
		return http.StatusNotFound, explanations[code]
	case code == jute.NoAuth, code == jute.SessionClosedAuth, code == jute.AuthFailed:
		return http.StatusForbidden, explanations[code]
	case code == jute.BadVersion, code == jute.NodeExists, code == jute.NotEmpty:
		return http.StatusConflict, explanations[code]
	case code != jute.OK:
		if why := explanations[code]; why != "" {
			return http.StatusBadRequest, why
		}
		return http.StatusBadRequest, fmt.Sprintf("The server answers: %v.", code)
	case errors.Is(err, errNotFound):
		return http.StatusNotFound, "There is no such page."
	case errors.Is(err, errClosed):
		return http.StatusForbidden, "This server serves nobody without a credential. Sign in to see znodes."
	case errors.Is(err, errWrongSuper):
		return http.StatusForbidden, "The password of the superuser is wrong, or the server has no superDigest."
	case errors.Is(err, errMadeUp):
		return http.StatusForbidden, "From another machine only a credential that proves something lets in: the " +
			"superuser's, or that of a user of SASL. Anybody can make up a name and a password of the scheme digest."
	case errors.Is(err, session.ErrWrongPassword):
		return http.StatusForbidden, "The name or the password is wrong."
	case errors.Is(err, errNoCredential):
		return http.StatusForbidden, "Give a name and a password; a name of the scheme digest has no colon."
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "The server has not answered in time. It may have lost its leader."
	case errors.Is(err, client.ErrTooLong):
		return http.StatusBadGateway, "The answer is longer than the console takes. Go to a znode below by typing " +
			"its path; zkd cli takes lists of any length."
	case session.Lost(err):
		return http.StatusBadGateway, "The session with the server has ended, or no server can be reached. " +
			"Load the page again for another one."
	}
	var form *formError
	if errors.As(err, &form) {
		return http.StatusBadRequest, form.why
	}
	return http.StatusBadGateway, fmt.Sprintf("No server can be asked: %v.", err)
}

// formError is what is wrong with what a person has filled in.
type formError struct{ why string }

// Error says it.
func (e *formError) Error() string { return e.why }

// shownMax bounds what is said of what a stranger has sent.
const shownMax = 64

// shown is text of a stranger for the log.
func shown(s string) string {
	if len(s) > shownMax {
		s = s[:shownMax]
	}
	return strconv.Quote(s)
}

// query writes text for the query of an address.
func query(s string) string { return url.QueryEscape(s) }

// bytesText writes a number of bytes.
func bytesText(n any) string {
	f := number(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		if math.Abs(f) < 1024 || unit == "TiB" {
			if unit == "B" {
				return fmt.Sprintf("%.0f B", f)
			}
			return fmt.Sprintf("%.1f %s", f, unit)
		}
		f /= 1024
	}
	return ""
}

// number is any number as a float.
func number(n any) float64 {
	switch n := n.(type) {
	case int:
		return float64(n)
	case int32:
		return float64(n)
	case int64:
		return float64(n)
	case jute.Version:
		return float64(n)
	case float64:
		return n
	}
	return 0
}

// countText writes a number with its thousands apart.
func countText(n any) string {
	digits := strconv.FormatInt(int64(number(n)), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return sign + digits
}

// rateText writes how often something happens.
func rateText(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return countText(math.Round(f))
}

// wholeText writes a number that has no parts.
func wholeText(f float64) string { return countText(math.Round(f)) }

// millisText writes milliseconds.
func millisText(f float64) string {
	switch {
	case f < 10:
		return strconv.FormatFloat(f, 'f', 2, 64) + " ms"
	case f < 1000:
		return strconv.FormatFloat(f, 'f', 0, 64) + " ms"
	}
	return strconv.FormatFloat(f/1000, 'f', 1, 64) + " s"
}

// percentText writes a part of 1.
func percentText(f float64) string { return strconv.FormatFloat(f*100, 'f', 0, 64) + " %" }

// hexText writes a zxid or a session as ZooKeeper does.
func hexText(n any) string {
	switch n := n.(type) {
	case jute.Zxid:
		return fmt.Sprintf("%#x", uint64(n))
	case jute.SessionID:
		return fmt.Sprintf("%#x", uint64(n))
	case int64:
		return fmt.Sprintf("%#x", uint64(n))
	}
	return ""
}

// toTime is a moment.
func toTime(at any) time.Time {
	switch at := at.(type) {
	case time.Time:
		return at
	case jute.Millis:
		return time.UnixMilli(int64(at))
	}
	return time.Time{}
}

// whenText writes a moment for people.
func whenText(at any) string {
	t := toTime(at)
	if t.IsZero() || t.UnixMilli() == 0 {
		return "—"
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// stampText writes a moment for <time datetime>.
func stampText(at any) string { return toTime(at).UTC().Format(time.RFC3339) }

// spanText writes how long something takes, in its two largest units.
func spanText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// plural writes a number with the word for what is counted.
func plural(n any, one, many string) string {
	if number(n) == 1 {
		return "1 " + one
	}
	return countText(n) + " " + many
}

// operations are words for ZooKeeper's short names of operations.
var operations = map[string]string{
	"CREA": "create", "DELE": "delete", "EXIS": "exists", "GETD": "getData", "SETD": "setData", "GETA": "getACL",
	"SETA": "setACL", "GETC": "getChildren", "SYNC": "sync", "PING": "ping", "MULT": "multi", "SESS": "connect",
	"CLOS": "closeSession", "SETW": "setWatches", "AUTH": "auth", "RECO": "reconfig", "ERRO": "error",
}

// fourletterOp is a word for ZooKeeper's short name of an operation.
func fourletterOp(short string) string {
	if word := operations[short]; word != "" {
		return word
	}
	return short
}
