package conf

// tlsKeys are the rows about TLS that do not exist twice.
var tlsKeys = []key{
	{name: "sslQuorum", kind: kindBoolean, def: "false", mark: must, effect: works,
		doc: "TLS between members, with the stores of ssl.quorum.*.",
		set: func(c *Config, v value) { c.TLS.QuorumEnabled = v.flag }},
	{name: "portUnification", kind: kindBoolean, def: "false", mark: should, effect: works,
		doc: "Peer ports take TLS and plain text, for the time of a change to TLS; sslQuorum says which of the two " +
			"this server uses to connect.",
		set: func(c *Config, v value) { c.TLS.QuorumPortUnification = v.flag }},
	{name: "sslQuorumReloadCertFiles", kind: kindBoolean, def: "false", mark: should, effect: works,
		doc: "Read the stores of members again when they change.",
		set: func(c *Config, v value) { c.TLS.QuorumCertReload = v.flag }},
	{name: "fips-mode", property: "zookeeper.fips-mode", kind: kindBoolean, def: "true", mark: should, effect: later,
		doc: "The runtime checks host names, rather than ZooKeeper's own code.",
		set: func(c *Config, v value) { c.TLS.FIPS = v.flag }},
	{name: "ssl.authProvider", property: "zookeeper.ssl.authProvider", kind: kindText, def: "x509", mark: should,
		effect: later,
		doc:    "Scheme that turns a client's certificate into an identity.",
		set:    func(c *Config, v value) { c.TLS.AuthProvider = v.text }},
	{name: "client.portUnification", property: "zookeeper.client.portUnification", kind: kindBoolean, def: "false",
		mark: must, effect: refused,
		doc: "The TLS port for clients takes plain text too.",
		set: func(c *Config, v value) { c.Client.PortUnification = v.flag }},
	{name: "client.certReload", property: "zookeeper.client.certReload", kind: kindBoolean, def: "false", mark: should,
		effect: later,
		doc:    "Read the stores for clients again when they change.",
		set:    func(c *Config, v value) { c.Client.CertReload = v.flag }},
}

// clientTLSKeys are the rows ssl.*, for the TLS port of clients.
var clientTLSKeys = tlsEndKeys("ssl.", "clients", func(c *Config) *TLSEnd { return &c.TLS.Client })

// quorumTLSKeys are the rows ssl.quorum.*, for members and the admin server.
var quorumTLSKeys = memberTLSKeys(
	tlsEndKeys("ssl.quorum.", "members", func(c *Config) *TLSEnd { return &c.TLS.Quorum }))

// memberTLSKeys makes the rows of tlsEndKeys what they are between members.
func memberTLSKeys(rows []key) []key {
	for i := range rows {
		row := &rows[i]
		row.effect = works
		switch row.name {
		case "ssl.quorum.crl", "ssl.quorum.ocsp":
			row.effect = refused
		case "ssl.quorum.hostnameVerification":
			row.doc = "A member that this one connects to must show a certificate for the host of its server line. " +
				"ZooKeeper with its default fips-mode=true does not look; zkd does."
		case "ssl.quorum.clientHostnameVerification":
			row.doc = "A member that connects must show a certificate for the address it comes from. In ZooKeeper it " +
				"is true by default and without effect under fips-mode=true, which is also the default."
		case "ssl.quorum.allowReverseDnsLookup":
			row.def = "true"
			row.doc = "In that check a host name that the address resolves to will do as well."
		case "ssl.quorum.ciphersuites":
			row.doc = "Cipher suites of TLSv1.2 and older with members, as Java names them; those that Go has not " +
				"are left out with a line in the log. Of TLSv1.3 all are on, or none when none is named."
		}
	}
	return rows
}

// tlsEndKeys makes the rows for one kind of TLS connection; whose names who is at the other end.
func tlsEndKeys(prefix, whose string, end func(*Config) *TLSEnd) []key {
	rows := []key{
		{name: "protocol", kind: kindText, def: "TLSv1.3", doc: "Newest TLS version with " + whose + ".",
			set: func(c *Config, v value) { end(c).Protocol = v.text }},
		{name: "enabledProtocols", kind: kindList,
			doc: "TLS versions with " + whose + "; TLSv1.2 and up to the one of " + prefix + "protocol when not given.",
			set: func(c *Config, v value) { end(c).EnabledProtocols = v.list }},
		{name: "ciphersuites", kind: kindList, doc: "Cipher suites with " + whose + ", as Java names them.",
			set: func(c *Config, v value) { end(c).CipherSuites = v.list }},
		{name: "clientAuth", kind: kindWord, choices: []string{"none", "want", "need"}, def: "need",
			doc: "Whether " + whose + " that connect must show a certificate.",
			set: func(c *Config, v value) { end(c).ClientAuth = v.text }},
		{name: "hostnameVerification", kind: kindBoolean, def: "true",
			doc: "Check the host name in certificates of " + whose + ".",
			set: func(c *Config, v value) { end(c).HostnameVerification = v.flag }},
		{name: "clientHostnameVerification", kind: kindBoolean, def: "false", doc: "The same on the accepting side.",
			set: func(c *Config, v value) { end(c).ClientHostnameVerification = v.flag }},
		{name: "allowReverseDnsLookup", kind: kindBoolean, def: "false",
			doc: "Look for the host name of an address in that check.",
			set: func(c *Config, v value) { end(c).AllowReverseDNS = v.flag }},
		{name: "crl", kind: kindBoolean, def: "false", doc: "Check revocation lists.",
			set: func(c *Config, v value) { end(c).CRL = v.flag }},
		{name: "ocsp", kind: kindBoolean, def: "false", doc: "Ask whether certificates are revoked.",
			set: func(c *Config, v value) { end(c).OCSP = v.flag }},
		{name: "handshakeDetectionTimeoutMillis", kind: kindMillis, def: "5000", min: 1, max: maxInt,
			doc: "Time in which a connection to a unified port must show what it is.",
			set: func(c *Config, v value) { end(c).HandshakeDetection = v.span }},
	}
	keyStore := func(c *Config) *Store { return &end(c).KeyStore }
	trustStore := func(c *Config) *Store { return &end(c).TrustStore }
	rows = append(rows, storeKeys("keyStore.", "key and certificate", keyStore)...)
	rows = append(rows, storeKeys("trustStore.", "trusted certificates", trustStore)...)
	for i := range rows {
		rows[i].name = prefix + rows[i].name
		rows[i].property = propertyPrefix + rows[i].name
		rows[i].mark, rows[i].effect = must, later
	}
	return rows
}

// storeKeys makes the rows for one store; what says what is in it.
func storeKeys(prefix, what string, store func(*Config) *Store) []key {
	return []key{
		{name: prefix + "location", kind: kindPath, doc: "File with the " + what + ".",
			set: func(c *Config, v value) { store(c).Location = v.text }},
		{name: prefix + "password", kind: kindText, secret: true, doc: "Password of that file.",
			set: func(c *Config, v value) { store(c).Password = v.text }},
		{name: prefix + "passwordPath", kind: kindPath, doc: "File with that password; it wins over the password.",
			set: func(c *Config, v value) { store(c).PasswordPath = v.text }},
		{name: prefix + "type", kind: kindWord, choices: []string{"", "JKS", "PEM", "PKCS12", "BCFKS"},
			doc: "Format of that file; when not given it is by the end of its name: `.jks`, `.pem`, `.p12`.",
			set: func(c *Config, v value) { store(c).Type = v.text }},
	}
}
