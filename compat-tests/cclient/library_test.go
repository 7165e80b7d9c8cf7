package cclient_test

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"zkd/compat-tests/target"
)

// The source of Apache's C client, as Debian's package zookeeper of a release has it from Apache. Debian's own library
// is built without TLS and without SASL. The release need not be that of this machine: its archive has them all.
const (
	sourceVersion = "3.9.3"
	sourceRelease = "trixie"
	sourceFile    = "zookeeper_" + sourceVersion + ".orig.tar.gz"
	sourceSHA256  = "8bf0b9f872b3c0a6e64f8bc55ffb44cbff6e2712f6467ee5164ca6847466b31b"
)

// clientDir is where the source has the client, and juteFile the records of the protocol.
const (
	clientDir = "zookeeper-client/zookeeper-client-c"
	juteFile  = "zookeeper-jute/src/main/resources/zookeeper.jute"
)

// config is what configure would find out on Linux.
//
//go:embed src/library/config.h
var config []byte

// What the library is built from and with.
var (
	sources = []string{
		"zookeeper.c", "recordio.c", "zk_log.c", "zk_hashtable.c", "addrvec.c", "mt_adaptor.c", "zk_sasl.c",
		"hashtable/hashtable.c", "hashtable/hashtable_itr.c",
	}
	headers = []string{
		"zookeeper.h", "zookeeper_version.h", "zookeeper_log.h", "proto.h", "recordio.h", "zookeeper.jute.h",
	}
	features  = []string{"-std=gnu11", "-O1", "-g", "-DTHREADED", "-DHAVE_OPENSSL_H", "-DHAVE_CYRUS_SASL_H"}
	libraries = []string{"-lssl", "-lcrypto", "-lsasl2", "-lpthread"}
)

// The tools that the library needs beside a C compiler, Java and Maven.
var (
	aptTool = target.Tool{
		Name: "apt-get, for the source of the C client", Programs: []string{"apt-get", "tar", "gzip"},
		Probe: []string{"apt-get", "--version"}, Install: "apt tar gzip",
	}
	opensslTool = target.Linkable("OpenSSL for C", "libssl-dev", "openssl/ssl.h", "-lssl", "-lcrypto")
	saslTool    = target.Linkable("Cyrus SASL for C", "libsasl2-dev", "sasl/sasl.h", "-lsasl2")
	digestTool  = mechanism("DIGEST-MD5", "libdigestmd5.so", "libsasl2-modules")
	gssapiTool  = mechanism("GSSAPI", "libgssapiv2.so", "libsasl2-modules-gssapi-mit")
)

// mechanism is one by which Cyrus SASL logs in.
func mechanism(name, file, install string) target.Tool {
	return target.Tool{
		Name: "Cyrus SASL's " + name, Programs: []string{"sh", "ls"},
		Probe: []string{"sh", "-c", "ls /usr/lib/*/sasl2/" + file}, Install: install,
	}
}

// requireLibrary leaves the test out where the library cannot be built, or used with these tools.
func requireLibrary(t *testing.T, tools ...target.Tool) {
	t.Helper()
	target.Require(t, append([]target.Tool{target.Java, target.Maven, aptTool, opensslTool, saslTool}, tools...)...)
}

// library builds the C client with TLS and SASL, once, and returns what cc needs to use it: as Debian's library is
// used, but for the folders.
func library(t *testing.T) (flags []string) {
	t.Helper()
	jute := target.Classpath(t, target.ServerPOM, "zookeeper.version="+target.ServerVersion)
	inputs := slices.Concat([]string{sourceSHA256, string(config), target.ServerVersion}, sources, headers, features,
		libraries)
	dir := target.Cached(t, "cclient-"+sourceVersion, inputs, func(ctx context.Context, dir string) error {
		return build(ctx, dir, jute)
	})
	return append(slices.Clone(features), "-I"+filepath.Join(dir, "include"), "-L"+dir, "-Wl,-rpath,"+dir)
}

// build fetches the source and makes of it, in dir, the library and the folder include.
func build(ctx context.Context, dir, jute string) error {
	tree := filepath.Join(dir, "source")
	include := filepath.Join(dir, "include", "zookeeper")
	if err := errors.Join(os.MkdirAll(tree, 0o750), os.MkdirAll(include, 0o750)); err != nil {
		return err
	}
	var archive string
	err := target.Fetch(ctx, func(ctx context.Context, _ int) (err error) {
		archive, err = fetch(ctx, dir)
		return err
	})
	if err != nil {
		return err
	}
	err = target.Execute(ctx, tree, "tar", "-xzf", archive, "--strip-components=1", "--wildcards",
		"*/"+clientDir+"/src", "*/"+clientDir+"/include", "*/"+juteFile)
	if err != nil {
		return err
	}
	own := filepath.Join(tree, clientDir)
	generated := filepath.Join(own, "include") // zookeeper.jute.h, for the others include it
	err = target.Execute(ctx, generated, "java", "-cp", jute, "org.apache.jute.compiler.generated.Rcc",
		"--language", "c", filepath.Join(tree, juteFile))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(generated, "config.h"), config, 0o600); err != nil {
		return err
	}
	for _, header := range headers {
		if err := os.Rename(filepath.Join(generated, header), filepath.Join(include, header)); err != nil {
			return err
		}
	}
	args := slices.Concat(features, []string{
		"-w", "-fPIC", "-shared", "-o", filepath.Join(dir, "libzookeeper_mt.so"), "-I" + generated, "-I" + include,
		"-I" + filepath.Join(own, "src"), filepath.Join(generated, "zookeeper.jute.c"),
	})
	for _, source := range sources {
		args = append(args, filepath.Join(own, "src", source))
	}
	return target.Execute(ctx, "", "cc", append(args, libraries...)...)
}

// archives are those that apt asks for its lists on this machine, as apt prints what it would fetch: of a release
// itself, not of its updates.
var archives = regexp.MustCompile(`(?m)^'([^']+)/dists/[a-z]+/InRelease' `)

// fetch has apt fetch the source into dir, from the archive that this machine's packages come from. It leaves the
// machine's own lists as they are, and needs no right to change them.
func fetch(ctx context.Context, dir string) (archive string, err error) {
	state := filepath.Join(dir, "apt")
	options := []string{
		"-q", "-o", "Acquire::Retries=3", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=true",
		"-o", "Dir::State::lists=" + filepath.Join(state, "lists"), "-o", "Dir::Cache=" + filepath.Join(state, "cache"),
	}
	for _, folder := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(state, folder), 0o750); err != nil {
			return "", err
		}
	}
	//nolint:gosec // the command is ours
	printed, err := exec.CommandContext(ctx, "apt-get", append(options, "--print-uris", "update")...).Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for its archives: %w", err)
	}
	err = errors.New("apt has no archive: name one of Debian's in its list of sources")
	for _, found := range archives.FindAllSubmatch(printed, -1) {
		list := filepath.Join(state, "sources.list")
		line := fmt.Sprintf("deb-src [trusted=yes] %s %s main\n", found[1], sourceRelease) // sourceSHA256 tells
		if err := os.WriteFile(list, []byte(line), 0o600); err != nil {
			return "", err
		}
		own := append(slices.Clone(options), "-o", "Dir::Etc::sourcelist="+list, "-o", "Dir::Etc::sourceparts=-")
		if err = target.Execute(ctx, dir, "apt-get", append(own, "update")...); err == nil {
			own = append(own, "--download-only", "--tar-only", "source", "zookeeper")
			err = target.Execute(ctx, dir, "apt-get", own...)
		}
		if err == nil {
			archive = filepath.Join(dir, sourceFile)
			return archive, errors.Join(verify(archive), os.RemoveAll(state))
		}
	}
	return "", fmt.Errorf("fetch the source of the C client: %w", err)
}

// verify compares the source with the hash that was written down when it was first read.
func verify(archive string) error {
	content, err := os.ReadFile(archive) //nolint:gosec // in the cache
	if err != nil {
		return fmt.Errorf("Debian's package zookeeper has another version now, take it over: %w", err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != sourceSHA256 {
		return fmt.Errorf("%s has the SHA-256 %s, want %s", archive, got, sourceSHA256)
	}
	return nil
}

// compile makes a program of the folder src and what the programs share. flags come before the sources: those of
// library, or of Debian's own, which needs no other library than itself.
func compile(t *testing.T, folder string, flags ...string) string {
	t.Helper()
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-O1", "-g", "-DTHREADED", "-Isrc/shared"}, flags...)
	for _, part := range []string{"shared", folder} {
		files, err := filepath.Glob(filepath.Join("src", part, "*.c"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no C sources in src/%s: %v", part, err)
		}
		args = append(args, files...)
	}
	program := filepath.Join(t.TempDir(), strings.ReplaceAll(folder, "/", "-"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args = append(args, "-o", program, "-lzookeeper_mt", "-lpthread")
	if slices.Contains(flags, features[len(features)-1]) {
		args = append(args, libraries...)
	}
	if err := target.Execute(ctx, "", "cc", args...); err != nil {
		t.Fatal(err)
	}
	return program
}
