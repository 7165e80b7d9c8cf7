package zkcli_test

import (
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
	clientAddrs = regexp.MustCompile(`(?m)^[0-9a-f]+ 127\.\S+$`)
)

// TestReconfigTranscript runs zkCli's config and reconfig on three servers, with a fourth that is down.
func TestReconfigTranscript(t *testing.T) {
	target.Require(t, target.Java, target.Maven)
	e := ensemble.Prepare(t, ensemble.Options{Servers: 4, Dynamic: true})
	e.Found(3)
	commands, err := os.ReadFile(filepath.Join("testdata", "reconfig.txt"))
	if err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("{line}", e.Lines("observer", e.Servers[3])[0],
		"{super}", target.SuperUser+":"+target.SuperPassword).Replace(string(commands))
	cli := startCLI(t, e.Servers[0].Addr, target.ServerVersion)
	var transcript strings.Builder
	for line := range strings.Lines(script) {
		transcript.WriteString(cli.do(step{command: strings.TrimSpace(line)}))
	}
	cli.awaitExit()
	masked := ensemble.Mask{Ensemble: e}
	text := masked.Text(mask(transcript.String(), "none"))
	text = dataLength.ReplaceAllString(text, "${1}<length>")
	text = clientAddrs.ReplaceAllStringFunc(text, func(line string) string {
		_, list, _ := strings.Cut(line, " ")
		addrs := strings.Split(list, ",")
		slices.Sort(addrs) // zkCli has them in a hash set
		return "<version> " + strings.Join(addrs, ",")
	})
	target.Golden(t, "reconfig", text, *update)
}
