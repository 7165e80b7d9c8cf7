package conf

// auditKeys are the rows about the audit log. Where ZooKeeper has the settings of its logger, zkd has keys.
var auditKeys = []key{
	{name: "audit.enable", property: "zookeeper.audit.enable", kind: kindBoolean, def: "false", mark: must,
		effect: works,
		doc:    "Write a line for each write of a client: who, from where, what, and whether it was done.",
		set:    func(c *Config, v value) { c.Audit.Enabled = v.flag }},
	{name: "zkd.audit.file", kind: kindPath, mark: must, effect: works,
		doc: "File that the audit log is appended to; it is opened again when it was renamed. Nothing is the log of " +
			"the server, where its lines have component=audit.",
		set: func(c *Config, v value) { c.Audit.Path = v.text }},
	{name: "zkd.audit.format", kind: kindWord, choices: []string{AuditText, AuditJSON, AuditZooKeeper}, def: AuditText,
		mark: must, effect: works,
		doc: "Lines of that file: key=value, JSON, or as ZooKeeper's own settings of its logger make them.",
		set: func(c *Config, v value) { c.Audit.Format = v.text }},
}
