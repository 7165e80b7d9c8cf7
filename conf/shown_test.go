package conf

import (
	"strings"
	"testing"
)

// TestShownWithoutSecrets: what the admin commands show has no value of a secret, of unknown keys neither.
func TestShownWithoutSecrets(t *testing.T) {
	const text = "# kept\ndataDir=/d\nclientPort=1\nadmin.serverPort=9\n" +
		"DigestAuthenticationProvider.superDigest = super:\\\n   hush1=\nssl.keyStore.password:hush2\n" +
		"my.own.passwd=hush3\nmy.own.key=shown\n"
	c := load(t, text)
	want := "# kept\ndataDir=/d\nclientPort=1\nadmin.serverPort=9\n" +
		"DigestAuthenticationProvider.superDigest=(hidden)\nssl.keyStore.password=(hidden)\n" +
		"my.own.passwd=(hidden)\nmy.own.key=shown\n"
	if got := c.Initial(); got != want {
		t.Errorf("the zoo.cfg is shown as\n%s\nwant\n%s", got, want)
	}
	found := c.Properties()
	for name, value := range found { // any order
		if strings.Contains(value, "hush") {
			t.Errorf("%s is shown as %s", name, value)
		}
	}
	for name, value := range map[string]string{ // any order
		"dataDir": "/d", "clientPort": "1", "zookeeper.admin.serverPort": "9", "tickTime": "3000",
		"zookeeper.DigestAuthenticationProvider.superDigest": hidden, "zookeeper.ssl.keyStore.password": hidden,
		"zookeeper.my.own.passwd": hidden, "zookeeper.my.own.key": "shown",
	} {
		if found[name] != value {
			t.Errorf("%s is %q, want %q", name, found[name], value)
		}
	}
	if !c.Given("admin.serverPort") || c.Given("admin.serverAddress") || c.Given("nonsense") {
		t.Error("who has given what is not known")
	}
}

// TestCommentsAreShownWithoutSecrets: an entry that was made a comment may hold what is still a password elsewhere.
func TestCommentsAreShownWithoutSecrets(t *testing.T) {
	for text, want := range map[string]string{ // any order
		"#ssl.keyStore.password=hush\n":            "#ssl.keyStore.password=(hidden)\n",
		" ! ssl.trustStore.password : hush hush\r": " ! ssl.trustStore.password :(hidden)\r",
		"#\tssl.keyStore.password hush\n":          "#\tssl.keyStore.password (hidden)\n",
		"# was: superDigest=super:hush=\nclientPort=1\n# secret: hush": "# was: superDigest=(hidden)\nclientPort=1\n" +
			"# secret:(hidden)",
		"#SSL.KEYSTORE.PASSWORD=hush\rmy.apiKey=hush\r\n": "#SSL.KEYSTORE.PASSWORD=(hidden)\rmy.apiKey=(hidden)\n",
		"# the password of the store is in the vault\n":   "# the password of the store is in the vault\n",
		"# ports = 1\n#\n\n##\n":                          "# ports = 1\n#\n\n##\n",
	} {
		if got := load(t, text+"\ndataDir=/d\nclientPort=1\n").Initial(); got != want+"\ndataDir=/d\nclientPort=1\n" {
			t.Errorf("%q is shown as\n%q, want\n%q", text, got, want)
		}
	}
}
