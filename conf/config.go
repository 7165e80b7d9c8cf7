package conf

import (
	"strings"
	"time"
)

// Config is everything a server is told at its start. Load makes it; nobody changes it afterwards, so it may be read
// from any goroutine. The slices and maps in it belong to it: read them only.
//
// Each field names its key; the default, the range and the meaning of each key are in docs/configuration.md, which
// comes from the same table that fills these fields. Nothing here can change while the server runs, but for the members
// of an ensemble: what Ensemble says of them is how they were at the start.
type Config struct {
	Storage  Storage
	Client   Client
	Session  Session
	Limits   Limits
	Commands Commands
	Tree     Tree
	Auth     Auth
	Audit    Audit
	TLS      TLS
	Admin    Admin
	Metrics  Metrics
	Ensemble Ensemble
	File     string             // name of the zoo.cfg that was read; empty when there was none
	Unknown  map[string]string  // keys that are in no table, kept as they were found
	Notices  []Notice           // what the operator should be told, one log line each, in the order of the sources
	settings map[string]setting // what the fields were read from, by key name
	members  []setting          // the server, group and weight lines, in the order of their numbers
	text     bool               // File is no name of a file: the zoo.cfg was given as text
	initial  string             // the zoo.cfg, without secrets
}

// Storage says where data lives and how it is made durable.
type Storage struct {
	DataDir    string // dataDir; required when there is a zoo.cfg, else ./zkd-data
	DataLogDir string // dataLogDir; DataDir when not given
	// forceSync (yes): fsync before acknowledging; zkd does so whatever this says
	ForceSync                  bool
	FsyncWarning               time.Duration // fsync.warningthresholdms (1000 ms): log an fsync that took longer
	SnapshotCompression        string        // snapshot.compression.method: empty, gz or snappy
	TrustEmptySnapshot         bool          // snapshot.trust.empty (false)
	AutocreateDB               bool          // db.autocreate (true): start empty without the file `initialize`
	AutocreateDataDir          bool          // datadir.autocreate (true)
	SerializeLastProcessedZxid bool          // serializeLastProcessedZxid.enabled (true)
	SyncEnabled                bool          // syncEnabled (true): an observer keeps logs and snapshots
	ScrubRate                  int64         // zkd.scrub.rate (4 MiB): bytes a second that a scrub reads; 0: none runs
	ScrubInterval              time.Duration // zkd.scrub.interval (1 day): from one scrub's beginning to the next one's
	DiskReserveBytes           int64         // zkd.diskReserve (-1): kept on each disk; -1 is by its size, 0 is none
	CacheBytes                 int64         // zkd.cacheSize (0): for znodes in memory; 0 is the store's default
	ImportOnStart              bool          // zkd.importOnStart (false): import what dataDir holds of ZooKeeper
}

// Client describes the ports clients connect to.
type Client struct {
	// clientPort and clientPortAddress as host:port; the host is empty for all; empty when there is no plain port
	Addr       string
	SecureAddr string // secureClientPort and secureClientPortAddress, alike
	Backlog    int    // clientPortListenBacklog; -1 is the system's own
	MaxPerIP   int    // maxClientCnxns (60); 0 is no limit
	MaxTotal   int    // maxCnxns; 0 is no limit
	KeepAlive  bool   // clientTcpKeepAlive (false)
	// nio.sessionlessCnxnTimeout (10000 ms): a connection that never shakes hands is closed
	HandshakeTimeout       time.Duration
	MaxFrameBytes          int64 // jute.maxbuffer (1048575)
	MaxFrameExtraBytes     int64 // jute.maxbuffer.extrasize (MaxFrameBytes)
	PortUnification        bool  // client.portUnification (false): the plain port takes TLS too
	CertReload             bool  // client.certReload (false)
	LeaderServes           bool  // leaderServes (yes)
	ReadOnlyMode           bool  // readonlymode.enabled (false)
	LocalSessions          bool  // localSessionsEnabled (false)
	LocalSessionsUpgrading bool  // localSessionsUpgradingEnabled (false)
	LinearizableReads      bool  // zkd.linearizableReads (false): each read waits for a read index
}

// Session holds the unit of time and the bounds of a session's timeout.
type Session struct {
	TickTime   time.Duration // tickTime: 3000 ms when a zoo.cfg does not say, 2000 ms without a zoo.cfg
	MinTimeout time.Duration // minSessionTimeout (2 × TickTime)
	MaxTimeout time.Duration // maxSessionTimeout (20 × TickTime)
}

// Limits bounds what requests may ask of the server.
type Limits struct {
	Outstanding                int                // globalOutstandingLimit (1000): stop reading above it
	ThrottleMaxRequests        int                // request_throttle_max_requests; 0 is off
	ThrottleStall              time.Duration      // request_throttle_stall_time (100 ms)
	ThrottleDropStale          bool               // request_throttle_drop_stale (true)
	StaleConnectionCheck       bool               // request_stale_connection_check (true)
	StaleLatencyCheck          bool               // request_stale_latency_check (false)
	ThrottledOpWait            time.Duration      // throttled_op_wait_time; 0 is off
	LargeRequestThresholdBytes int64              // largeRequestThreshold; -1 is off
	LargeRequestMaxBytes       int64              // largeRequestMaxBytes (100 MiB)
	Connections                ConnectionThrottle // connection_throttle_*
	Sessions                   int                // zkd.maxSessions; 0 is no limit
	Watches                    int                // zkd.maxWatches; 0 is no limit
	WatchesPerConnection       int                // zkd.maxWatchesPerConnection; 0 is no limit
	Identities                 int                // zkd.maxIdentitiesPerConnection of one connection (64)
	IdentityBytes              int                // zkd.maxIdentityBytesPerConnection (8 KiB)
	ClientMemoryBytes          int64              // zkd.clientMemory; -1 is a quarter of what there is, 0 no limit
}

// ConnectionThrottle is the token bucket for new connections, ZooKeeper's BlueThrottle.
type ConnectionThrottle struct {
	Tokens        int           // connection_throttle_tokens; 0 is off
	FillTime      time.Duration // connection_throttle_fill_time (1 ms)
	FillCount     int           // connection_throttle_fill_count (1)
	FreezeTime    time.Duration // connection_throttle_freeze_time; negative is off
	DropIncrease  float64       // connection_throttle_drop_increase (0.02)
	DropDecrease  float64       // connection_throttle_drop_decrease (0.002)
	DecreaseRatio float64       // connection_throttle_decrease_ratio (0)
	Weighted      bool          // connection_throttle_weight_enabled (false)
	GlobalWeight  int           // connection_throttle_global_session_weight (3)
	LocalWeight   int           // connection_throttle_local_session_weight (1)
	RenewWeight   int           // connection_throttle_renew_session_weight (2)
}

// Commands says which four-letter words are answered.
type Commands struct {
	// 4lw.commands.whitelist (srvr) as written, without blanks; `*` allows all; the caller adds what is always on
	Whitelist []string
}

// Tree holds the switches of the data tree.
type Tree struct {
	ExtendedTypes         bool          // extendedTypesEnabled (false): TTL nodes
	SkipACL               bool          // skipACL (no)
	EnforceQuota          bool          // enforceQuota (false): hard quotas
	ContainerCheck        time.Duration // znode.container.checkIntervalMs (60000 ms)
	ContainerMaxPerMinute int           // znode.container.maxPerMinute (10000)
	ContainerMaxNeverUsed time.Duration // znode.container.maxNeverUsedIntervalMs; 0 is never
	Reconfig              bool          // reconfigEnabled (false)
}

// Formats of the audit log's file.
const (
	AuditText      = "text"
	AuditJSON      = "json"
	AuditZooKeeper = "zookeeper"
)

// Audit says whether and where the audit log is written.
type Audit struct {
	Enabled bool   // audit.enable (false)
	Path    string // zkd.audit.file; empty is the server's log
	Format  string // zkd.audit.format (text), of the file
}

// Auth holds the authentication schemes and who is super.
type Auth struct {
	SuperDigest              string            // DigestAuthenticationProvider.superDigest; empty is none
	DigestEnabled            bool              // DigestAuthenticationProvider.enabled (true)
	DigestAlgorithm          string            // DigestAuthenticationProvider.digestAlg (SHA1), as Java names it
	X509SuperUser            string            // X509AuthenticationProvider.superUser
	X509SAN                  X509SAN           // X509AuthenticationProvider.clientCertId*
	SuperUsers               []string          // superUser and superUser.X, in the order of X
	SASLSuperPassword        string            // SASLAuthenticationProvider.superPassword
	LetAnySASLUserDo         string            // letAnySaslUserDoX
	AllowSASLFailedClients   bool              // allowSaslFailedClients (false)
	RequireSASL              bool              // sessionRequireClientSASLAuth (false)
	Enforce                  bool              // enforce.auth.enabled (false)
	EnforceSchemes           []string          // enforce.auth.schemes
	Providers                map[string]string // authProvider.X: Java class name by X
	IgnoreUnknownProviders   bool              // zkd.ignoreUnknownProviders (false)
	EnsembleName             string            // ensembleAuthName
	UseXForwardedFor         bool              // IPAuthenticationProvider.usexforwardedfor (false)
	JAASFile                 string            // java.security.auth.login.config
	JAASSection              string            // sasl.serverconfig (Server)
	SASLUsersFile            string            // zkd.sasl.users
	KerberosConfig           string            // java.security.krb5.conf (/etc/krb5.conf)
	KerberosRemoveHost       bool              // kerberos.removeHostFromPrincipal (false)
	KerberosRemoveRealm      bool              // kerberos.removeRealmFromPrincipal (false)
	KerberosAuthToLocal      string            // security.auth_to_local (DEFAULT)
	KerberosMinReLogin       time.Duration     // kerberos.minReLoginTimeMs (60000 ms)
	KerberosRequireConfig    bool              // requireKerberosConfig (false)
	KerberosKinit            string            // kinit
	QuorumSASL               bool              // quorum.auth.enableSasl (false)
	QuorumServerRequireSASL  bool              // quorum.auth.serverRequireSasl (false)
	QuorumLearnerRequireSASL bool              // quorum.auth.learnerRequireSasl (false)
	QuorumServerSection      string            // quorum.auth.server.saslLoginContext (QuorumServer)
	QuorumLearnerSection     string            // quorum.auth.learner.saslLoginContext (QuorumLearner)
	QuorumPrincipal          string            // quorum.auth.kerberos.servicePrincipal (zkquorum/localhost)
	QuorumConnectionThreads  int               // quorum.cnxn.threads.size (20)
}

// TLS holds the keys ssl.* for clients and ssl.quorum.* for members.
type TLS struct {
	Client                TLSEnd // ssl.*
	Quorum                TLSEnd // ssl.quorum.*, also for the admin server
	QuorumEnabled         bool   // sslQuorum (false)
	QuorumPortUnification bool   // portUnification (false)
	QuorumCertReload      bool   // sslQuorumReloadCertFiles (false)
	FIPS                  bool   // fips-mode (true)
	AuthProvider          string // ssl.authProvider (x509)
	HandshakesMax         int    // netty.server.outstandingHandshake.limit (-1); 0 or less is no limit
}

// X509SAN says which alternative name of a client's certificate is its identity.
type X509SAN struct {
	IDType       string // X509AuthenticationProvider.clientCertIdType: SAN, in any case, or anything else for none
	MatchType    int    // X509AuthenticationProvider.clientCertIdSanMatchType (-1)
	MatchRegex   string // X509AuthenticationProvider.clientCertIdSanMatchRegex (.*)
	ExtractRegex string // X509AuthenticationProvider.clientCertIdSanExtractRegex (.*)
	ExtractGroup int    // X509AuthenticationProvider.clientCertIdSanExtractMatcherGroupIndex (0)
}

// Enabled tells whether the identity is taken from the alternative names.
func (s *X509SAN) Enabled() bool { return strings.EqualFold(s.IDType, "SAN") }

// TLSEnd is what one kind of TLS connection needs. Passwords are never logged.
type TLSEnd struct {
	KeyStore, TrustStore       Store
	Protocol                   string        // protocol (TLSv1.3)
	EnabledProtocols           []string      // enabledProtocols; with members TLSv1.2 up to Protocol when not given
	CipherSuites               []string      // ciphersuites; empty is ZooKeeper's own order
	ClientAuth                 string        // clientAuth (need): none, want or need
	HostnameVerification       bool          // hostnameVerification (true)
	ClientHostnameVerification bool          // clientHostnameVerification (false)
	AllowReverseDNS            bool          // allowReverseDnsLookup (false; with members true)
	CRL, OCSP                  bool          // crl, ocsp (false)
	HandshakeDetection         time.Duration // handshakeDetectionTimeoutMillis (5000 ms)
}

// Store is a key or trust store file.
type Store struct {
	Location     string // location
	Password     string // password
	PasswordPath string // passwordPath: file that holds the password; it wins over Password
	Type         string // type: JKS, PEM, PKCS12 or BCFKS; empty is by the file's extension
}

// isBCFKS tells whether the store has the format of Bouncy Castle.
func (s *Store) isBCFKS() bool {
	return s.Type == "BCFKS" || (s.Type == "" && strings.HasSuffix(s.Location, ".bcfks"))
}

// typedBy is the end of the name of the key that says which format the store has.
func (s *Store) typedBy() string {
	if s.Type == "" {
		return "location"
	}
	return "type"
}

// Admin describes the HTTP admin server.
type Admin struct {
	Enabled          bool          // admin.enableServer (true)
	Addr             string        // admin.serverAddress and admin.serverPort as host:port (0.0.0.0:8080)
	CommandURL       string        // admin.commandURL (/commands)
	IdleTimeout      time.Duration // admin.idleTimeout (30000 ms)
	PortUnification  bool          // admin.portUnification (false)
	ForceHTTPS       bool          // admin.forceHttps (false)
	NeedClientAuth   bool          // admin.needClientAuth (false)
	Snapshot         bool          // admin.snapshot.enabled (true)
	Restore          bool          // admin.restore.enabled (true)
	SnapshotInterval time.Duration // admin.rateLimiterIntervalInMS (300000 ms)
	Profiles         bool          // zkd.admin.pprof (false)
	Console          bool          // zkd.console (true)
	ConsoleReadOnly  bool          // zkd.console.readOnly (false)
}

// Metrics describes the Prometheus endpoint, which requests count as slow, and whether those are told apart that come
// in.
type Metrics struct {
	Prometheus     bool          // metricsProvider.className names the Prometheus provider
	Host           string        // metricsProvider.httpHost (0.0.0.0)
	Port           int           // metricsProvider.httpPort (7000); -1 is none
	TLSPort        int           // metricsProvider.httpsPort; -1 is none
	Runtime        bool          // metricsProvider.exportJvmInfo (true)
	TLS            TLSEnd        // metricsProvider.ssl.*
	NeedClientAuth bool          // metricsProvider.ssl.need.client.auth (true)
	SlowRequest    time.Duration // zkd.slowRequestThreshold (1000 ms); 0 is off
	Traffic        bool          // zkd.traffic (true)
}
