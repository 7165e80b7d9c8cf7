package conf

import "strconv"

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
	{name: "fips-mode", property: "zookeeper.fips-mode", kind: kindBoolean, def: "true", mark: should, effect: works,
		doc: "Whose code checks host names in ZooKeeper, Java's or its own. zkd has one check, with either value.",
		set: func(c *Config, v value) { c.TLS.FIPS = v.flag }},
	{name: "ssl.authProvider", property: "zookeeper.ssl.authProvider", kind: kindText, def: "x509", mark: should,
		effect: works,
		doc: "Scheme that turns a client's certificate into an identity: x509, or a name that authProvider.X gives " +
			"to ZooKeeper's X509AuthenticationProvider.",
		set: func(c *Config, v value) { c.TLS.AuthProvider = v.text }},
	{name: "client.portUnification", property: "zookeeper.client.portUnification", kind: kindBoolean, def: "false",
		mark: must, effect: works,
		doc: "clientPort takes TLS as well as plain text, for the time of a change to TLS; secureClientPort takes " +
			"TLS alone.",
		set: func(c *Config, v value) { c.Client.PortUnification = v.flag }},
	{name: "client.certReload", property: "zookeeper.client.certReload", kind: kindBoolean, def: "false", mark: should,
		effect: works,
		doc: "Read the stores for clients again when they change. zkd does with either value, as 3.9.5 does unless " +
			"ssl.authProvider is set.",
		set: func(c *Config, v value) { c.Client.CertReload = v.flag }},
	{name: "netty.server.outstandingHandshake.limit", property: "zookeeper.netty.server.outstandingHandshake.limit",
		kind: kindProperty, def: "-1", mark: should, effect: works,
		doc: "TLS handshakes of clients under way at once, most of which wait for their client; more are turned " +
			"away. 0 or less is no limit.",
		set: func(c *Config, v value) { c.TLS.HandshakesMax = int(v.num) }},
}

// clientTLSKeys are the rows ssl.*, for the TLS port of clients.
var clientTLSKeys = clientEndKeys(tlsEndKeys("ssl.", "clients", func(c *Config) *TLSEnd { return &c.TLS.Client }))

// clientEndKeys makes the rows of tlsEndKeys what they are with clients.
func clientEndKeys(rows []key) []key {
	for i := range rows {
		row := &rows[i]
		switch row.name {
		case "ssl.protocol":
			row.doc = "The one TLS version with clients, when ssl.enabledProtocols is not given."
		case "ssl.enabledProtocols":
			row.doc = "TLS versions with clients; the one of ssl.protocol when not given."
		case "ssl.ciphersuites":
			row.doc = "Cipher suites of TLSv1.2 and older with clients, as Java names them; those that Go has not " +
				"are left out with a line in the log. Of TLSv1.3 all are on, or none when none is named."
		case "ssl.hostnameVerification":
			row.doc = "For ssl.clientHostnameVerification, which needs both to be true: the server connects to no " +
				"client."
		case "ssl.clientHostnameVerification":
			row.doc = "A client must show a certificate for the address it comes from."
		case "ssl.allowReverseDnsLookup":
			row.doc = "In that check a host name that the address resolves to will do as well."
		case "ssl.handshakeDetectionTimeoutMillis":
			row.doc = "Time in which a connection to a client port with client.portUnification must show what it is."
		case "ssl.trustStore.location":
			row.doc = "File with the trusted certificates; needed but with ssl.clientAuth=none."
		}
	}
	return rows
}

// sanKeys are the rows about the alternative names of clients' certificates. 3.9.5 has none of them: they are of later
// versions.
var sanKeys = []key{
	sanKey("Type", "", "`SAN` takes the identity of a client from the subject alternative names of its certificate; "+
		"else it is the subject.",
		func(c *Config, v value) { c.Auth.X509SAN.IDType = v.text }),
	sanKey("SanMatchType", "-1", "Kind of that name: 1 e-mail address, 2 DNS name, 4 directory name, "+
		"6 URI, 7 IP address, 8 object identifier.",
		func(c *Config, v value) { c.Auth.X509SAN.MatchType = int(v.num) }),
	sanKey("SanMatchRegex", ".*", "The name is the one in which this is found; the subject counts when it is not one.",
		func(c *Config, v value) { c.Auth.X509SAN.MatchRegex = v.text }),
	sanKey("SanExtractRegex", ".*", "Part of the name that is the identity.",
		func(c *Config, v value) { c.Auth.X509SAN.ExtractRegex = v.text }),
	sanKey("SanExtractMatcherGroupIndex", "0", "Group of that expression; 0 is all of it.",
		func(c *Config, v value) { c.Auth.X509SAN.ExtractGroup = int(v.num) }),
}

// sanKey makes a row of sanKeys; one with a number as default is a number.
func sanKey(name, def, doc string, set func(*Config, value)) key {
	name = "X509AuthenticationProvider.clientCertId" + name
	k := key{name: name, property: propertyPrefix + name, kind: kindText, def: def, mark: should, effect: works,
		doc: doc, set: set}
	if _, err := strconv.Atoi(def); err == nil {
		k.kind = kindNumber
	}
	return k
}

// quorumTLSKeys are the rows ssl.quorum.*, for members and the admin server.
var quorumTLSKeys = memberTLSKeys(
	tlsEndKeys("ssl.quorum.", "members", func(c *Config) *TLSEnd { return &c.TLS.Quorum }))

// memberTLSKeys makes the rows of tlsEndKeys what they are between members.
func memberTLSKeys(rows []key) []key {
	for i := range rows {
		row := &rows[i]
		switch row.name {
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
		rows[i].mark, rows[i].effect = must, works
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
