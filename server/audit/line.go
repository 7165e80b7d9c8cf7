package audit

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"zkd/jute"
	"zkd/storage/acl"
)

// appendLine adds the text of an event as org.apache.zookeeper.audit.AuditEvent.toString has it: key=value with tabs
// between them.
func (e *Event) appendLine(b []byte) []byte {
	var few [8]field
	for i, f := range e.fields(few[:0]) {
		if i > 0 {
			b = append(b, '\t')
		}
		b = append(b, f.key...)
		b = append(b, '=')
		b = appendEscaped(b, f.value)
	}
	return b
}

// appendEscaped adds s. What would end the line or the field, or is no text, is written as an escape sequence of Go.
// ZooKeeper writes it as it is, so that whoever names a znode can make up lines of the audit log.
func appendEscaped(b []byte, s string) []byte {
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			quoted := strconv.Quote(s[:n])
			b = append(b, quoted[1:len(quoted)-1]...)
		} else {
			b = append(b, s[:n]...)
		}
		s = s[n:]
	}
	return b
}

// ACLText writes an ACL list as org.apache.zookeeper.ZKUtil.aclToString does: scheme:id:permissions, one behind the
// other. The digests of passwords are replaced by an x, as in the answer of getACL to who may not administer the znode;
// ZooKeeper writes them into its log.
func ACLText(list []jute.ACL) string {
	var b strings.Builder
	for _, a := range acl.Redact(list) {
		b.WriteString(a.ID.Scheme)
		b.WriteByte(':')
		b.WriteString(a.ID.ID)
		b.WriteByte(':')
		b.WriteString(permText(a.Perms))
	}
	return b.String()
}

// permText writes permissions in ZooKeeper's order (ZKUtil.getPermString).
func permText(p jute.Perms) string {
	b := make([]byte, 0, 5)
	for _, one := range []struct {
		perm   jute.Perms
		letter byte
	}{
		{jute.PermCreate, 'c'}, {jute.PermDelete, 'd'}, {jute.PermRead, 'r'}, {jute.PermWrite, 'w'},
		{jute.PermAdmin, 'a'},
	} {
		if p&one.perm != 0 {
			b = append(b, one.letter)
		}
	}
	return string(b)
}
