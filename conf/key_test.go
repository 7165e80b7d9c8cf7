package conf

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestKeysAreDistinct(t *testing.T) {
	byName, byEnv, byViper := map[string]string{}, map[string]string{}, map[string]string{}
	for _, k := range newTable().rows {
		for where, index := range map[string]map[string]string{ // any order: each by itself
			k.name: byName, envName(k.name): byEnv, viperKey(k.name): byViper,
		} {
			if other, taken := index[where]; taken {
				t.Errorf("%s and %s are both %s", other, k.name, where)
			}
			index[where] = k.name
		}
	}
}

func TestKeysAreWhole(t *testing.T) {
	for _, k := range newTable().rows {
		if k.set == nil || k.doc == "" || k.allowed() == "" || !strings.ContainsRune("MSPJ", rune(k.mark)) {
			t.Errorf("row %s lacks a part: %+v", k.name, k)
		}
		if k.def == "" {
			continue
		}
		if _, ok := k.parse(k.def); !ok {
			t.Errorf("the default %q of %s is not %s", k.def, k.name, k.allowed())
		}
	}
}

// TestEveryKeyFillsItsField sets each key that has a field to a value that is not its default and looks which field of
// the Config changes: one that no other key changes, and whose comment names the key.
func TestEveryKeyFillsItsField(t *testing.T) {
	comments := fieldComments(t)
	owner := map[string]string{}
	for _, k := range newTable().rows {
		// The first group shapes more than one field or none; the scripts in testdata/load cover it.
		switch k.name {
		case "myid", "server.N", "group.N", "weight.N", "electionAlg", "peerType", "clientPort", "clientPortAddress",
			"secureClientPort", "secureClientPortAddress", "dataDir", "dynamicConfigFile", "superUser.X",
			"metricsProvider.httpHost", "admin.serverAddress", "standaloneEnabled", "quorum.auth.enableSasl",
			"zkd.join", "zkd.myidFromHostname":
			continue
		}
		if k.mark == tuning || k.mark == javaOnly {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			fields := changedFields(t, &k)
			if k.effect == ignored && len(fields) == 0 {
				return
			}
			if len(fields) != 1 {
				t.Fatalf("%s changes %v, want one field", k.name, fields)
			}
			if other, taken := owner[fields[0]]; taken {
				t.Errorf("%s changes %s, and so does %s", k.name, fields[0], other)
			}
			owner[fields[0]] = k.name
			name := strings.TrimPrefix(strings.TrimPrefix(k.name, "metricsProvider."), "ssl.")
			name = strings.TrimPrefix(name, "quorum.")
			for _, prefix := range []string{"keyStore.", "trustStore."} {
				name = strings.TrimPrefix(name, prefix)
			}
			path := strings.Split(fields[0], ".")
			comment := comments[path[len(path)-1]]
			names := func(c string) bool { return strings.Contains(c, name) || strings.Contains(c, k.name) }
			if !slices.ContainsFunc(comment, names) {
				t.Errorf("no comment of a field %s names the key %s: %q", path[len(path)-1], name, comment)
			}
		})
	}
}

// changedFields loads a zoo.cfg with k set to another value than its default and returns the fields that differ from
// those without it, derived ones apart.
func changedFields(t *testing.T, k *key) []string {
	t.Helper()
	const base = "dataDir=/d\nclientPort=1\nquorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n" +
		"enforce.auth.schemes=x\nzkd.audit.file=x\nssl.keyStore.location=/k\nssl.trustStore.location=/t\n"
	without := load(t, base)
	with := load(t, base+k.fullName("7")+"="+otherValue(k)+"\n")
	fields := differences("", reflect.ValueOf(*without), reflect.ValueOf(*with))
	derived := map[string][]string{
		"tickTime":       {"Session.MinTimeout", "Session.MaxTimeout"},
		"jute.maxbuffer": {"Client.MaxFrameExtraBytes"},
		"initLimit":      {"Ensemble.InitTimeout"},
		"syncLimit":      {"Ensemble.SyncTimeout"},
	}
	return slices.DeleteFunc(fields, func(name string) bool { return slices.Contains(derived[k.name], name) })
}

// otherValue is a value of k's kind that is not its default.
func otherValue(k *key) string {
	switch k.kind {
	case kindBoolean:
		// One is true in the base, because another needs it.
		return fmt.Sprint(k.def == "false" && k.name != "quorum.auth.learnerRequireSasl")
	case kindYesNo:
		if k.def == "yes" {
			return "no"
		}
		return "yes"
	case kindChoice, kindWord:
		return k.choices[1]
	case kindDecimal:
		return "0.5"
	case kindText, kindPath, kindList:
		if k.name == "metricsProvider.className" {
			return "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
		}
		return "other"
	default:
		other := max(k.min+1, 6001)
		if k.max > 0 {
			other = min(other, k.max)
		}
		return fmt.Sprint(other)
	}
}

// differences names the exported fields that differ.
func differences(name string, a, b reflect.Value) []string {
	var found []string
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if !field.IsExported() || field.Name == "Notices" {
			continue
		}
		full := strings.TrimPrefix(name+"."+field.Name, ".")
		if a.Field(i).Kind() == reflect.Struct {
			found = append(found, differences(full, a.Field(i), b.Field(i))...)
		} else if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			found = append(found, full)
		}
	}
	return found
}

// fieldComments returns the comments of all fields of a Config by field name.
func fieldComments(t *testing.T) map[string][]string {
	t.Helper()
	comments := map[string][]string{}
	for _, name := range []string{"config.go", "ensemble.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok {
				for _, name := range f.Names {
					comments[name.Name] = append(comments[name.Name], f.Doc.Text()+f.Comment.Text())
				}
			}
			return true
		})
	}
	return comments
}

// load loads a zoo.cfg that must be right.
func load(t *testing.T, text string) *Config {
	t.Helper()
	config, err := Load(Sources{Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestEnvName(t *testing.T) {
	for name, want := range map[string]string{ // any order: each by itself
		"clientPort":                       "ZKD_CLIENT_PORT",
		"4lw.commands.whitelist":           "ZKD_4LW_COMMANDS_WHITELIST",
		"skipACL":                          "ZKD_SKIP_ACL",
		"quorumListenOnAllIPs":             "ZKD_QUORUM_LISTEN_ON_ALL_IPS",
		"fips-mode":                        "ZKD_FIPS_MODE",
		"sslQuorum":                        "ZKD_SSL_QUORUM",
		"ssl.quorum.keyStore.passwordPath": "ZKD_SSL_QUORUM_KEY_STORE_PASSWORD_PATH",
		"DigestAuthenticationProvider.superDigest":  "ZKD_DIGEST_AUTHENTICATION_PROVIDER_SUPER_DIGEST",
		"X509AuthenticationProvider.superUser":      "ZKD_X509_AUTHENTICATION_PROVIDER_SUPER_USER",
		"admin.rateLimiterIntervalInMS":             "ZKD_ADMIN_RATE_LIMITER_INTERVAL_IN_MS",
		"connection_throttle_fill_time":             "ZKD_CONNECTION_THROTTLE_FILL_TIME",
		"znode.container.maxNeverUsedIntervalMs":    "ZKD_ZNODE_CONTAINER_MAX_NEVER_USED_INTERVAL_MS",
		"multiAddress.reachabilityCheckTimeoutMs":   "ZKD_MULTI_ADDRESS_REACHABILITY_CHECK_TIMEOUT_MS",
		"DigestAuthenticationProvider.digestAlg":    "ZKD_DIGEST_AUTHENTICATION_PROVIDER_DIGEST_ALG",
		"IPAuthenticationProvider.usexforwardedfor": "ZKD_IP_AUTHENTICATION_PROVIDER_USEXFORWARDEDFOR",
		"serializeLastProcessedZxid.enabled":        "ZKD_SERIALIZE_LAST_PROCESSED_ZXID_ENABLED",
		"connection_throttle_global_session_weight": "ZKD_CONNECTION_THROTTLE_GLOBAL_SESSION_WEIGHT",
		"zkd.linearizableReads":                     "ZKD_LINEARIZABLE_READS",
		"SASLAuthenticationProvider.superPassword":  "ZKD_SASL_AUTHENTICATION_PROVIDER_SUPER_PASSWORD",
		"ssl.handshakeDetectionTimeoutMillis":       "ZKD_SSL_HANDSHAKE_DETECTION_TIMEOUT_MILLIS",
		"autopurge.snapRetainCount":                 "ZKD_AUTOPURGE_SNAP_RETAIN_COUNT",
	} {
		if got := envName(name); got != want {
			t.Errorf("envName(%q) = %s, want %s", name, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	table := newTable()
	for _, c := range []struct{ name, row, index string }{
		{"tickTime", "tickTime", ""},
		{"zookeeper.tickTime", "", ""},
		{"ticktime", "", ""},
		{"skipACL", "skipACL", ""},
		{"zookeeper.skipACL", "skipACL", ""},
		{"jute.maxbuffer", "jute.maxbuffer", ""},
		{"zookeeper.jute.maxbuffer", "jute.maxbuffer", ""},
		{"server.12", "server.N", "12"},
		{"server.x", "server.N", "x"},
		{"server.", "", ""},
		{"", "", ""},
		{"zookeeper.server.1", "", ""},
		{"superUser", "superUser", ""},
		{"superUser.2", "superUser.X", "2"},
		{"zookeeper.superUser.2", "superUser.X", "2"},
		{"superUser.x", "superUser.X", "x"},
		{"authProvider.MyOwn", "authProvider.X", "MyOwn"},
		{"metricsProvider.httpPort", "metricsProvider.httpPort", ""},
		{"metricsProvider.maxQueueSize", "metricsProvider.X", "maxQueueSize"},
		{"jvm.pause.warn-threshold.ms", "jvm.pause.X", "warn-threshold.ms"},
		{"ssl.quorum.clientAuth", "ssl.quorum.clientAuth", ""},
	} {
		row, index, ok := table.find(c.name)
		got := ""
		if ok {
			got = row.name
		}
		if got != c.row || index != c.index {
			t.Errorf("find(%q) = %q, %q; want %q, %q", c.name, got, index, c.row, c.index)
		}
	}
}

func TestNearest(t *testing.T) {
	table := newTable()
	for name, want := range map[string]string{ // any order: each by itself
		"tickTimes": "tickTime", "ticktime": "tickTime", "clientport": "clientPort", "maxClientCnxn": "maxClientCnxns",
		"extendedTypeEnabled": "extendedTypesEnabled", "server1": "server.N", "server_1": "server.N",
		"autopurge.snapRetain":  "autopurge.snapRetainCount",
		"4lw.command.whitelist": "4lw.commands.whitelist", "frobnicate": "", "": "", "x": "",
		strings.Repeat("clientPort", 1000): "",
	} {
		if got := table.nearest(name); got != want {
			t.Errorf("nearest(%.40q) = %q, want %q", name, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b        string
		limit, want int
	}{
		{"", "", 5, 0}, {"a", "", 5, 1}, {"kitten", "sitting", 9, 3}, {"kitten", "sitting", 2, 2}, {"abc", "abc", 1, 0},
		{"abcdef", "f", 3, 3}, {"ab", "ba", 9, 2},
	} {
		if got := editDistance(c.a, c.b, c.limit); got != c.want {
			t.Errorf("editDistance(%q, %q, %d) = %d, want %d", c.a, c.b, c.limit, got, c.want)
		}
	}
}

func TestNumbersReadAsJavaReadsThem(t *testing.T) {
	for _, c := range []struct {
		s               string
		parsed, decoded int64
		parses, decodes bool
	}{
		{"10", 10, 10, true, true},
		{"+10", 10, 10, true, true},
		{"-10", -10, -10, true, true},
		{"010", 10, 8, true, true},
		{"0", 0, 0, true, true},
		{"0x10", 0, 16, false, true},
		{"-0X1f", 0, -31, false, true},
		{"#ff", 0, 255, false, true},
		{"09", 9, 0, true, false},
		{"", 0, 0, false, false},
		{"-", 0, 0, false, false},
		{"+-1", 0, 0, false, false},
		{"-+1", 0, 0, false, false},
		{"--1", 0, 0, false, false},
		{"0x", 0, 0, false, false},
		{"0x-1", 0, 0, false, false},
		{"1_000", 0, 0, false, false},
		{"0x1_0", 0, 0, false, false},
		{"1 ", 0, 0, false, false},
		{"1.5", 0, 0, false, false},
		{"1L", 0, 0, false, false},
		{"9223372036854775807", 1<<63 - 1, 1<<63 - 1, true, true},
		{"-9223372036854775808", -1 << 63, -1 << 63, true, true},
		{"9223372036854775808", 0, 0, false, false},
	} {
		if n, ok := parseDecimal(c.s); ok != c.parses || (ok && n != c.parsed) {
			t.Errorf("parseDecimal(%q) = %d, %t; want %d, %t", c.s, n, ok, c.parsed, c.parses)
		}
		if n, ok := decodeJava(c.s); ok != c.decodes || (ok && n != c.decoded) {
			t.Errorf("decodeJava(%q) = %d, %t; want %d, %t", c.s, n, ok, c.decoded, c.decodes)
		}
	}
}
