package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options say what dist makes.
type options struct {
	root     string // of the module
	out      string // folder for what is made
	targets  []target
	packages bool // .deb and .rpm too, for the targets with linux
	report   io.Writer
}

// release is one run of dist.
type release struct {
	options
	stamp      stamp
	modules    []*module
	thirdParty string
	made       []string // names in out
}

// dist makes everything that a release consists of.
func dist(ctx context.Context, o options) error {
	r := &release{options: o}
	var err error
	if r.stamp, err = readStamp(ctx, o.root); err != nil {
		return err
	}
	if r.modules, err = modules(ctx, o.root, o.targets); err != nil {
		return err
	}
	goRoot, err := output(ctx, o.root, nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	goLicence, err := goLicenceText(goRoot)
	if err != nil {
		return err
	}
	r.thirdParty = thirdParty(r.modules, goLicence)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, t := range o.targets {
		what := "binary, SBOM, archive"
		if r.packaged(t) {
			what += ", packages"
		}
		if _, err := fmt.Fprintf(o.report, "%s/%s: %s\n", t.os, t.arch, what); err != nil {
			return err
		}
		if err := r.makeTarget(ctx, t); err != nil {
			return err
		}
	}
	if err := r.writeSums(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.report, "made in %s:\n  %s\n  %s\n", o.out, strings.Join(r.made, "\n  "), sumsFile)
	return err
}

// packaged tells whether there are packages of a system.
func (r *release) packaged(t target) bool { return t.os == "linux" && r.packages }

// goLicenceText is the licence of the standard library; Debian has it elsewhere.
func goLicenceText(goRoot string) (string, error) {
	for _, name := range []string{filepath.Join(goRoot, "LICENSE"), filepath.Join(goRoot, "..", "LICENSE")} {
		if text, err := os.ReadFile(name); err == nil {
			return string(text), nil
		}
	}
	return "", fmt.Errorf("the file LICENSE of Go is not in %s: use Go as it is released", goRoot)
}

// makeTarget makes what there is for one system.
func (r *release) makeTarget(ctx context.Context, t target) error {
	name := fmt.Sprintf("zkd_%s_%s_%s", r.stamp.version, t.os, t.arch)
	dir, err := os.MkdirTemp("", "zkd-dist")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the operating system clears what is left
	file, err := build(ctx, r.root, dir, r.stamp, t)
	if err != nil {
		return err
	}
	bom, err := makeSBOM(file, r.stamp, t, r.modules)
	if err != nil {
		return err
	}
	if err := r.write(name+".cdx.json", bom); err != nil {
		return err
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	stage := filepath.Join(dir, "stage")
	if err := os.Mkdir(stage, 0o755); err != nil {
		return err
	}
	own := file
	if t != (target{runtime.GOOS, runtime.GOARCH}) {
		if own, err = r.buildOwn(ctx, dir); err != nil {
			return err
		}
	}
	if err := r.makeHelp(ctx, own, stage); err != nil {
		return err
	}
	archive, err := r.archive(name, binary, stage)
	if err != nil {
		return err
	}
	if err := r.write(name+".tar.gz", archive); err != nil {
		return err
	}
	if !r.packaged(t) {
		return nil
	}
	return r.makePackages(ctx, t, dir, file)
}

// write makes a file in out.
func (r *release) write(name string, content []byte) error {
	r.made = append(r.made, name)
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// licenceFile is the file of the licence.
const licenceFile = "LICENSE"

// carried is what archives and packages have of the repository, files and folders: what the README and the documents
// lead to, but for sources.
var carried = []string{
	licenceFile, "README.md", "CHANGELOG.md", "docs", "conf/zoo_sample.cfg", "conf/zoo_ensemble.cfg", "conf/systemd",
	"conf/grafana", "conf/prometheus", "conf/kubernetes", "conf/compose",
}

// documents returns the files of carried, by name.
func (r *release) documents() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range carried {
		if err := addTree(files, name, filepath.Join(r.root, filepath.FromSlash(name))); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// archive packs a folder for those who install by hand. help holds the man pages and the completions.
func (r *release) archive(folder string, binary []byte, help string) ([]byte, error) {
	files, err := r.documents()
	if err != nil {
		return nil, err
	}
	files["zkd"], files["THIRD_PARTY.txt"] = binary, []byte(r.thirdParty)
	for name, from := range map[string]string{ // any order: each by itself
		"man": "man", "completion/zkd.bash": "completion-bash", "completion/_zkd": "completion-zsh",
		"completion/zkd.fish": "completion-fish",
	} {
		if err := addTree(files, name, filepath.Join(help, from)); err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(files))
	for name := range files { // any order: sorted below
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	packed := tar.NewWriter(&b)
	for _, name := range names {
		mode := int64(0o644)
		if name == "zkd" {
			mode = 0o755
		}
		header := &tar.Header{Name: folder + "/" + name, Mode: mode, Size: int64(len(files[name])),
			ModTime: r.stamp.time, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		if err := packed.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := packed.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	return compress(b.Bytes())
}

// addTree adds a file, or all files of a folder, under a name.
func addTree(files map[string][]byte, name, from string) error {
	return filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		below, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		files[path.Join(name, filepath.ToSlash(below))], err = os.ReadFile(file) //nolint:gosec // of the checkout
		return err
	})
}

// writeSums makes the file that sha256sum -c reads.
func (r *release) writeSums() error {
	slices.Sort(r.made)
	var b strings.Builder
	for _, name := range r.made {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(content), name)
	}
	return os.WriteFile(filepath.Join(r.out, sumsFile), []byte(b.String()), 0o644)
}

// sumsFile has the checksum of everything else.
const sumsFile = "SHA256SUMS"

// makePackages makes the .deb and the .rpm of a system, in a folder that looks as the installed system will.
func (r *release) makePackages(ctx context.Context, t target, dir, binary string) error {
	stage := filepath.Join(dir, "stage")
	for to, from := range r.staged(binary) { // any order: each file by itself
		if err := copyFile(filepath.Join(stage, filepath.FromSlash(to)), from); err != nil {
			return err
		}
	}
	copyright, err := r.copyright()
	if err != nil {
		return err
	}
	changelog, err := r.debianChangelog()
	if err != nil {
		return err
	}
	files := map[string][]byte{"doc/copyright": []byte(copyright), "changelog.gz": changelog}
	documents, err := r.documents()
	if err != nil {
		return err
	}
	for name, content := range documents { // any order: each file by itself
		if name != licenceFile { // it is in copyright, and a link
			files["doc/"+name] = content
		}
	}
	for name, content := range files { // any order: each file by itself
		file := filepath.Join(stage, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return r.runNFPM(ctx, t, stage)
}

// staged are the files that a package has as they are: name in the stage, which nfpm.yaml uses, and where it is.
func (r *release) staged(binary string) map[string]string {
	from := func(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }
	return map[string]string{
		"usr/bin/zkd":           binary,
		"etc/zkd/zoo.cfg":       from("conf/zoo_sample.cfg"),
		"systemd/zkd.service":   from("conf/systemd/zkd.service"),
		"systemd/zkd.default":   from("conf/systemd/zkd.default"),
		"systemd/sysusers.conf": from("conf/systemd/sysusers.conf"),
		"systemd/tmpfiles.conf": from("conf/systemd/tmpfiles.conf"),
		"scripts/postinstall":   from("conf/package/postinstall.sh"),
		"scripts/preremove":     from("conf/package/preremove.sh"),
		"scripts/postremove":    from("conf/package/postremove.sh"),
		"lintian-overrides":     from("conf/package/lintian-overrides"),
	}
}

// copyright is the file that says under which licences a package is.
func (r *release) copyright() (string, error) {
	own, err := os.ReadFile(filepath.Join(r.root, licenceFile))
	const head = "Copyright: the authors of zkd\nLicense: Apache-2.0, on Debian also in " +
		"/usr/share/common-licenses/Apache-2.0\n\n"
	return head + string(own) + "\n" + r.thirdParty, err
}

// maintainer is whom the packages name. It is no address that takes mail.
const maintainer = "The authors of zkd <zkd@localhost>"

// debianChangelog is the one entry that a package made from a release needs, in Debian's form, compressed.
func (r *release) debianChangelog() ([]byte, error) {
	const form = "zkd (%s) stable; urgency=medium\n\n  * See /usr/share/doc/zkd/CHANGELOG.md\n\n -- %s  %s\n"
	version := strings.Replace(r.stamp.version, "-", "~", 1)
	return compress(fmt.Appendf(nil, form, version, maintainer, r.stamp.time.Format(time.RFC1123Z)))
}

// buildOwn makes the binary of this machine, for a target that cannot be run here.
func (r *release) buildOwn(ctx context.Context, dir string) (string, error) {
	return build(ctx, r.root, filepath.Join(dir, "own"), r.stamp, target{runtime.GOOS, runtime.GOARCH})
}

// makeHelp has a binary that runs on this machine write its completions, and its manual pages if it has the command for
// them.
func (r *release) makeHelp(ctx context.Context, own, stage string) error {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := output(ctx, "", nil, own, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(stage, "completion-"+shell), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	pages := filepath.Join(stage, "man")
	if err := os.Mkdir(pages, 0o755); err != nil {
		return err
	}
	help, err := output(ctx, "", nil, own, "help")
	if err != nil || !strings.Contains(help, "\n  man ") {
		return err
	}
	epoch := fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.stamp.time.Unix())
	if _, err := output(ctx, "", []string{epoch}, own, "man", pages); err != nil {
		return err
	}
	return compressAll(pages)
}

// compressAll compresses each file of a folder, as packages have manual pages.
func compressAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		content, err := compress(text)
		if err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(name+".gz", content, 0o644), os.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}

// compress is gzip without a name and a time.
func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = zipped.Write(text)
	err = errors.Join(err, zipped.Close()) // before the bytes are taken: it holds some back
	return b.Bytes(), err
}

// runNFPM makes the packages of a stage.
func (r *release) runNFPM(ctx context.Context, t target, stage string) error {
	version, err := nfpmVersion(r.root)
	if err != nil {
		return err
	}
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	environ := []string{
		"PACKAGE_VERSION=" + r.stamp.version, "PACKAGE_ARCH=" + t.arch, "PACKAGE_MAINTAINER=" + maintainer,
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.stamp.time.Unix(), 10), "GOFLAGS=", "GOWORK=off",
	}
	for _, kind := range []string{"deb", "rpm"} {
		name := fmt.Sprintf("zkd_%s_%s.%s", r.stamp.version, t.arch, kind)
		if _, err := output(ctx, stage, environ, "go", "run", "github.com/goreleaser/nfpm/v2/cmd/nfpm@"+version,
			"package", "--packager", kind, "--target", filepath.Join(out, name),
			"--config", filepath.Join(r.root, "conf", "package", "nfpm.yaml")); err != nil {
			return fmt.Errorf("make the package %s: %w", name, err)
		}
		r.made = append(r.made, name)
	}
	return nil
}

// nfpmVersion is the version of nfpm that .ci/versions.env names.
func nfpmVersion(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, ".ci", "versions.env"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "NFPM_VERSION="); ok {
			return version, nil
		}
	}
	return "", errors.New(".ci/versions.env has no NFPM_VERSION: name the version of nfpm that makes the packages")
}

// copyFile copies a file and makes the folders above it.
func copyFile(to, from string) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, in)
	return errors.Join(err, file.Close())
}
