package main

// cold are the packages that a release compiles without inlining, as patterns of go: what they do takes place when a
// server starts, when somebody asks how it is, when a client shakes hands, or in a command of an operator, never for
// each request. What inlining adds to them, code and the tables by which the runtime finds lines and pointers, is
// 1.4 MB. The paths of requests keep it: the runtime, the network, jute, server, quorum, storage, Pebble, raft,
// compression, checksums and ciphers.
var cold = []string{
	// Go's: HTTP, formats of text, profiles.
	"net/http", "net/http/...", "net/textproto", "mime/...", "html/...", "text/...", "encoding/json", "encoding/gob",
	"encoding/asn1", "encoding/csv", "regexp/...", "internal/profile", "runtime/pprof", "runtime/trace", "go/...",
	"database/...", "crypto/x509/...", "math/big", "net/url", "expvar", "fmt", "internal/fmtsort", "reflect",
	"os/exec", "os/user", "os/signal", "log/slog/...", "compress/...", "path/...", "vendor/golang.org/x/net/...",
	"vendor/golang.org/x/text/...",
	// Handshakes of TLS and the frame around its records; what is in them is ciphered elsewhere.
	"crypto/tls", "crypto/ecdsa", "crypto/elliptic", "crypto/rsa", "crypto/hpke", "crypto/internal/fips140/ecdsa",
	"crypto/internal/fips140/rsa", "vendor/golang.org/x/crypto/cryptobyte/...",
	// Metrics, and the figures of zkd bench.
	"github.com/prometheus/...", "github.com/munnerz/...", "github.com/beorn7/...", "github.com/HdrHistogram/...",
	// Command line and configuration.
	"github.com/spf13/...", "github.com/sagikazarmark/...", "github.com/subosito/...", "github.com/pelletier/...",
	"go.yaml.in/...", "github.com/fsnotify/...", "github.com/go-viper/...", "github.com/sourcegraph/...",
	// Texts of Pebble's errors.
	"github.com/cockroachdb/errors/...", "github.com/cockroachdb/redact/...", "github.com/cockroachdb/logtags/...",
	"github.com/getsentry/...", "github.com/gogo/...", "github.com/kr/...", "github.com/pkg/errors",
	"github.com/rogpeppe/...", "golang.org/x/text/...",
	// Kerberos and key stores.
	"github.com/jcmturner/...", "github.com/hashicorp/...", "golang.org/x/net/...",
	"github.com/pavlo-v-chernykh/...", "golang.org/x/crypto/...",
	// A compression that zkd's stores do not use.
	"github.com/minio/...",
	// The shell's lines.
	"github.com/ergochat/...", "golang.org/x/term",
	// Messages between servers are one for many requests, and the members change seldom.
	"google.golang.org/protobuf/...", "go.etcd.io/raft/v3/confchange",
	// Pebble's lists of its files, which change with a flush, keys for ranges and values elsewhere, which zkd has none
	// of, a format of tables that it does not write, and what prints.
	"github.com/cockroachdb/pebble/v2/objstorage/...", "github.com/cockroachdb/pebble/v2/vfs/...",
	"github.com/cockroachdb/pebble/v2/rangekey", "github.com/cockroachdb/pebble/v2/internal/rangekey",
	"github.com/cockroachdb/pebble/v2/internal/rangekeystack", "github.com/cockroachdb/pebble/v2/internal/manifest",
	"github.com/cockroachdb/pebble/v2/internal/testkeys", "github.com/cockroachdb/pebble/v2/internal/binfmt",
	"github.com/cockroachdb/pebble/v2/internal/humanize", "github.com/cockroachdb/pebble/v2/internal/treeprinter",
	"github.com/cockroachdb/pebble/v2/sstable/blob", "github.com/cockroachdb/pebble/v2/sstable/virtual",
	"github.com/cockroachdb/pebble/v2/sstable/rowblk",
	// zkd's own.
	"zkd/cmd/...", "zkd/conf/...", "zkd/bench/...",
	"zkd/server/console/...", "zkd/server/instance/...", "zkd/server/admin", "zkd/server/fourletter",
	"zkd/server/backup", "zkd/server/audit", "zkd/server/auth/...", "zkd/server/stats/catalog",
	"zkd/server/traffic/report",
	"zkd/storage/backup", "zkd/storage/migrate", "zkd/storage/zkdata", "zkd/storage/inspect", "zkd/storage/ensemble",
	"zkd/storage/datadir",
	"zkd/quorum/proof", "zkd/quorum/snapshot", "zkd/quorum/member", "zkd/jute/client/session",
	"zkd/jute/client/subtree",
}

// buildTags leave HTTP/2 out: no port of zkd speaks it, and it is 0.5 MB of net/http.
const buildTags = "nethttpomithttp2"

// alignFlag lets functions begin at 16 bytes, as C compilers let them; Go's 32 on amd64 are 0.2 MB of padding.
const alignFlag = "-funcalign=16"

// sizeArgs are the arguments of go that keep the binary small.
func sizeArgs() []string {
	args := []string{"-tags", buildTags}
	for _, pattern := range cold {
		args = append(args, "-gcflags="+pattern+"=-l")
	}
	return args
}
