package conf

import (
	"bytes"
	"regexp"
	"strings"
)

// Initial returns the text of the zoo.cfg as it was read, "" without one. The values of secrets are hidden in it.
func (c *Config) Initial() string { return c.initial }

// Properties returns the values of all keys that were given or have a default, by their names in zoo.cfg, those that
// are JVM properties in ZooKeeper by the names of these; and the keys that are in no table. The values of secrets are
// hidden.
func (c *Config) Properties() map[string]string {
	found := map[string]string{}
	for name, s := range c.settings { // any order: a map again
		if s.value == "" {
			continue
		}
		if s.row.property != "" && !strings.HasPrefix(name, propertyPrefix) && s.row.property != name {
			name = propertyPrefix + name
		}
		found[name] = s.shown()
	}
	for name, value := range c.Unknown { // likewise
		if soundsSecret(name) {
			value = hidden
		}
		found[propertyPrefix+name] = value
	}
	return found
}

// Given tells whether a key was given by anybody: it has not its default.
func (c *Config) Given(name string) bool {
	s, ok := c.settings[name]
	return ok && s.layer > layerDefault && s.source != imageDefault
}

// hidden stands for the value of a secret.
const hidden = "(hidden)"

// secretWords are in the names of keys that may hold a secret.
const secretWords = `(?i:passw|secret|digest|credential|token|api_?key)`

var (
	secretName = regexp.MustCompile(secretWords)
	// secretComment is a comment with such a name and, after the sign or behind a name with a dot, what may be its
	// value: an entry that was switched off.
	secretComment = regexp.MustCompile(`((?:^|[\r\n])[ \t\f]*[#!][^\r\n]*?(?:` +
		`[^\s=:]*` + secretWords + `[^\s=:]*[ \t]*[=:]|` +
		`[^\s=:]+\.[^\s=:]*` + secretWords + `[^\s=:]*[ \t]))[^\r\n]+`)
)

// soundsSecret tells whether a key that is in no table may hold a secret.
func soundsSecret(name string) bool { return secretName.MatchString(name) }

// withoutSecrets returns a properties text whose secrets have other values, those of entries that were made comments,
// too.
func withoutSecrets(text []byte, entries []entry, t *table) string {
	var b bytes.Buffer
	done := 0
	for _, e := range entries {
		row, _, known := t.find(e.key)
		if known && !row.secret || !known && !soundsSecret(e.key) {
			continue
		}
		b.Write(text[done:e.begin])
		b.WriteString(e.key + "=" + hidden + "\n")
		done = e.end
	}
	b.Write(text[done:])
	shown := secretComment.ReplaceAllString(b.String(), "${1}"+hidden)
	return strings.ToValidUTF8(shown, "\uFFFD")
}
