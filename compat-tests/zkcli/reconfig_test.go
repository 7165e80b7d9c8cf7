package zkcli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"zkd/compat-tests/ensemble"
	"zkd/compat-tests/target"
)

// What depends on the ports and on the zxids, besides what mask knows.
var (
	dataLength  = regexp.MustCompile(`(dataLength = )\d+`)
	versionLine = regexp.MustCompile(`(?m)^version=([0-9a-f]+)$`)
	versionFlag = regexp.MustCompile(`-v \S+`)
	clientAddrs = regexp.MustCompile(`(?m)^[0-9a-f]+ 127\.\S+$`)
)

// TestReconfigTranscript runs zkCli's config and reconfig on three servers, with a fourth that is down.
func TestReconfigTranscript(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	e := ensemble.Prepare(t, ensemble.Options{Servers: 4, Dynamic: true, Calm: true})
	e.Found(3)
	commands, err := os.ReadFile(filepath.Join("testdata", "reconfig.txt"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := strings.NewReplacer("{line}", e.Lines("observer", e.Servers[3])[0],
		"{members}", strings.Join(e.Lines("participant", e.Servers[:3]...), ","),
		"{file}", writeConfig(t, dir, "members", wholeConfig(e)),
		"{notAConfig}", writeConfig(t, dir, "garbage", "garbage\n"),
		"{super}", target.SuperUser+":"+target.SuperPassword).Replace(string(commands))
	transcript := runVersioned(startCLI(t, e.Servers[0].Addr, target.ServerVersion), script)
	masked := ensemble.Mask{Ensemble: e}
	text := masked.Text(mask(strings.ReplaceAll(transcript, dir, "<dir>"), "none"))
	text = dataLength.ReplaceAllString(text, "${1}<length>")
	text = clientAddrs.ReplaceAllStringFunc(text, func(line string) string {
		_, list, _ := strings.Cut(line, " ")
		addrs := strings.Split(list, ",")
		slices.Sort(addrs) // zkCli has them in a hash set
		return "<version> " + strings.Join(addrs, ",")
	})
	target.Golden(t, "reconfig", text, *update)
}

// runVersioned runs a script in which {version} and {older} are the last version that was printed, and the one before.
// In the transcript the versions that commands name are v0, v1 and so on, as ensemble.Mask has it.
func runVersioned(c *cli, script string) string {
	c.t.Helper()
	var transcript strings.Builder
	var versions []string // in the order of their first appearance
	for line := range strings.Lines(script) {
		if n := len(versions); n > 1 {
			line = strings.NewReplacer("{version}", versions[n-1], "{older}", versions[n-2]).Replace(line)
		}
		printed := c.do(step{command: strings.TrimSpace(line)})
		for _, found := range versionLine.FindAllStringSubmatch(printed, -1) {
			if !slices.Contains(versions, found[1]) {
				versions = append(versions, found[1])
			}
		}
		transcript.WriteString(versionFlag.ReplaceAllStringFunc(printed, func(flag string) string {
			if i := slices.Index(versions, strings.TrimPrefix(flag, "-v ")); i >= 0 {
				return fmt.Sprintf("-v v%d", i)
			}
			return flag
		}))
	}
	c.awaitExit()
	return transcript.String()
}

// wholeConfig is what a file for reconfig holds: the three participants, and an observer.
func wholeConfig(e *ensemble.Ensemble) string {
	lines := append(e.Lines("participant", e.Servers[:3]...), e.Lines("observer", e.Servers[3])...)
	return strings.Join(lines, "\n") + "\n"
}

func writeConfig(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
