package jaas

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// DigestModule is the class of the login module whose options user_<name>="<password>" are the users of DIGEST-MD5.
const DigestModule = "org.apache.zookeeper.server.auth.DigestLoginModule"

// KerberosModule is the class of the JDK's login module for Kerberos.
const KerberosModule = "com.sun.security.auth.module.Krb5LoginModule"

// userPrefix begins the options that are users (org.apache.zookeeper.server.ServerCnxnFactory.DIGEST_MD5_USER_PREFIX).
const userPrefix = "user_"

// Users returns the passwords of a section by user, as ServerCnxnFactory.getDigestMd5Credentials does: of all modules,
// the last one wins.
func (s *Section) Users() map[string]string {
	users := map[string]string{}
	for _, m := range s.Modules {
		for _, o := range m.Options {
			if name, ok := strings.CutPrefix(o.Key, userPrefix); ok {
				users[name] = o.Value
			}
		}
	}
	return users
}

// errNoUsers means a file of users without any.
var errNoUsers = errors.New("holds no user: write name:password, one a line")

// ParseUsers reads a file of `name:password` lines. The password is all after the first colon, blanks included; empty
// lines and those that begin with # do not count. Its error names the line, without the name of the file, and never
// the password.
func ParseUsers(text []byte) (map[string]string, error) {
	if !utf8.Valid(text) {
		return nil, errNotText
	}
	users := map[string]string{}
	number := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, password, ok := strings.Cut(line, ":")
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d: expected name:password, found no colon", number)
		case name == "" || strings.TrimSpace(name) != name:
			return nil, fmt.Errorf("line %d: the name before the colon is empty or has blanks around it", number)
		case password == "":
			return nil, fmt.Errorf("line %d: user %q has no password", number, name)
		}
		if _, twice := users[name]; twice {
			return nil, fmt.Errorf("line %d: user %q was there already", number, name)
		}
		users[name] = password
	}
	if len(users) == 0 {
		return nil, errNoUsers
	}
	return users, nil
}
