package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/viper"

	"zkd/conf"
)

// manifest is what zkd relies on of one document of conf/kubernetes/zkd.yaml.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		ClusterIP                string
		PublishNotReadyAddresses bool
		MaxUnavailable           int
		Ports                    []struct{ Name, TargetPort, Port string }
		Selector                 map[string]any
		ServiceName              string
		Replicas                 int
		Template                 struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
	}
}

type podSpec struct {
	TerminationGracePeriodSeconds int
	SecurityContext               struct {
		RunAsNonRoot                   bool
		RunAsUser, RunAsGroup, FSGroup int
	}
	Containers []container
}

type container struct {
	Args  []string
	Env   []struct{ Name, Value string }
	Ports []struct {
		Name          string
		ContainerPort int
	}
	StartupProbe, LivenessProbe, ReadinessProbe probe
	SecurityContext                             struct {
		AllowPrivilegeEscalation, ReadOnlyRootFilesystem bool
	}
	VolumeMounts []struct{ Name, MountPath string }
}

type probe struct {
	TCPSocket, HTTPGet struct{ Port, Path string }
}

// port is the name of the port that a probe asks.
func (p probe) port() string { return p.TCPSocket.Port + p.HTTPGet.Port }

// manifests returns the documents of the example by kind; those of one kind are in the order of the file.
func manifests(t *testing.T) map[string][]manifest {
	t.Helper()
	all := map[string][]manifest{}
	for document := range bytes.SplitSeq(read(t, "conf/kubernetes/zkd.yaml"), []byte("\n---\n")) {
		v := viper.NewWithOptions(viper.KeyDelimiter("\x00")) // labels have dots in their names
		v.SetConfigType("yaml")
		if err := v.ReadConfig(bytes.NewReader(document)); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		var m manifest
		if err := v.Unmarshal(&m); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		all[m.Kind] = append(all[m.Kind], m)
	}
	return all
}

func TestKubernetesFitsTogether(t *testing.T) {
	all := manifests(t)
	set := all["StatefulSet"][0]
	pod := set.Spec.Template.Spec
	zkd := pod.Containers[0]
	headless, clients := all["Service"][0], all["Service"][1]
	if set.Spec.ServiceName != headless.Metadata.Name || headless.Spec.ClusterIP != "None" ||
		!headless.Spec.PublishNotReadyAddresses {
		t.Errorf("the pods have no names: serviceName %q, service %+v", set.Spec.ServiceName, headless)
	}
	labels := fmt.Sprint(set.Spec.Template.Metadata.Labels)
	for _, m := range []manifest{headless, clients} {
		if fmt.Sprint(m.Spec.Selector) != labels {
			t.Errorf("service %s selects %v, the pods are %v", m.Metadata.Name, m.Spec.Selector, labels)
		}
	}
	for _, m := range append(all["PodDisruptionBudget"], set) {
		if fmt.Sprint(m.Spec.Selector["matchlabels"]) != labels {
			t.Errorf("%s selects %v, the pods are %v", m.Kind, m.Spec.Selector, labels)
		}
	}
	if n := all["PodDisruptionBudget"][0].Spec.MaxUnavailable; n != (set.Spec.Replicas-1)/2 {
		t.Errorf("%d pods may be away of %d", n, set.Spec.Replicas)
	}
	ports := map[string]int{}
	for _, p := range zkd.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range []probe{zkd.StartupProbe, zkd.LivenessProbe, zkd.ReadinessProbe} {
		if ports[p.port()] == 0 {
			t.Errorf("a probe asks port %q of %v", p.port(), ports)
		}
	}
	if got, want := ports, map[string]int{"client": 2181, "peer": 2888, "admin": 8080}; !maps.Equal(got, want) {
		t.Errorf("ports %v, want %v", got, want)
	}
	if !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.FSGroup != 1000 ||
		zkd.SecurityContext.AllowPrivilegeEscalation || !zkd.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("the pod may do more than it needs: %+v, %+v", pod.SecurityContext, zkd.SecurityContext)
	}
	if pod.TerminationGracePeriodSeconds <= 30 {
		t.Errorf("%d seconds to stop, and zkd may take 30", pod.TerminationGracePeriodSeconds)
	}
	if zkd.VolumeMounts[0].Name != set.Spec.VolumeClaimTemplates[0].Metadata.Name {
		t.Errorf("volume %s is mounted, and %s is claimed", zkd.VolumeMounts[0].Name,
			set.Spec.VolumeClaimTemplates[0].Metadata.Name)
	}
}

// TestKubernetesConfiguresEachPod loads the configuration as each pod does: with the variables of the image and of the
// manifest, and with the pod's name as that of the host.
func TestKubernetesConfiguresEachPod(t *testing.T) {
	set := manifests(t)["StatefulSet"][0]
	zkd := set.Spec.Template.Spec.Containers[0]
	if zkd.Args[0] != "serve" {
		t.Errorf("the container runs zkd %v", zkd.Args)
	}
	environ := imageEnviron(t)
	for _, e := range zkd.Env {
		environ = slices.DeleteFunc(environ, func(set string) bool { return strings.HasPrefix(set, e.Name+"=") })
		environ = append(environ, e.Name+"="+e.Value)
	}
	for ordinal := range set.Spec.Replicas {
		pod := fmt.Sprintf("%s-%d", set.Metadata.Name, ordinal)
		c, err := conf.Load(conf.Sources{Environ: environ, Hostname: pod})
		if err != nil {
			t.Fatalf("%s: %v", pod, err)
		}
		own, ok := c.Ensemble.Own()
		if !ok || c.Ensemble.MyID != int64(ordinal+1) || len(c.Ensemble.Members) != set.Spec.Replicas ||
			own.Addresses[0].Host != pod+"."+set.Spec.ServiceName {
			t.Errorf("%s is server %d of %+v", pod, c.Ensemble.MyID, c.Ensemble.Members)
		}
		if !c.Ensemble.Distributed || !c.Ensemble.ListenOnAllIPs {
			t.Errorf("%s: distributed %t, listens on all addresses %t: its own name may not be known yet", pod,
				c.Ensemble.Distributed, c.Ensemble.ListenOnAllIPs)
		}
		if mount := zkd.VolumeMounts[0].MountPath; !strings.HasPrefix(c.Storage.DataDir, mount+"/") ||
			!strings.HasPrefix(c.Storage.DataLogDir, mount+"/") {
			t.Errorf("%s writes to %s and %s, the volume is %s", pod, c.Storage.DataDir, c.Storage.DataLogDir, mount)
		}
		if len(c.Notices) > 0 || len(c.Unsupported()) > 0 {
			t.Errorf("%s: notices %v, missing %v", pod, c.Notices, c.Unsupported())
		}
	}
}

// TestImageConfiguresServer loads the configuration as a container does that was told nothing: what the image sets by
// itself makes no line in the log, with a zoo.cfg and without.
func TestImageConfiguresServer(t *testing.T) {
	c, err := conf.Load(conf.Sources{Environ: imageEnviron(t)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Storage.DataDir != "/data" || c.Storage.DataLogDir != "/datalog" || c.Client.Addr != "0.0.0.0:2181" {
		t.Errorf("data %s, log %s, port %s", c.Storage.DataDir, c.Storage.DataLogDir, c.Client.Addr)
	}
	mounted, err := conf.Load(conf.Sources{Environ: imageEnviron(t), ReadFile: func(name string) ([]byte, error) {
		if name != "/conf/zoo.cfg" {
			return nil, os.ErrNotExist
		}
		return []byte("dataDir=/data\nclientPort=2182\n"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if mounted.File != "/conf/zoo.cfg" || mounted.Client.Addr != ":2182" {
		t.Errorf("with a zoo.cfg in /conf: file %q, port %s", mounted.File, mounted.Client.Addr)
	}
	for _, c := range []*conf.Config{c, mounted} {
		if len(c.Notices) > 0 || len(c.Unsupported()) > 0 {
			t.Errorf("notices %v, missing %v", c.Notices, c.Unsupported())
		}
	}
}

// officialImage is what the official image sets (its Dockerfile for 3.9), without what is about its Java.
var officialImage = []string{
	"ZOO_CONF_DIR=/conf", "ZOO_DATA_DIR=/data", "ZOO_DATA_LOG_DIR=/datalog", "ZOO_TICK_TIME=2000", "ZOO_INIT_LIMIT=5",
	"ZOO_SYNC_LIMIT=2", "ZOO_AUTOPURGE_PURGEINTERVAL=0", "ZOO_AUTOPURGE_SNAPRETAINCOUNT=3", "ZOO_MAX_CLIENT_CNXNS=60",
	"ZOO_STANDALONE_ENABLED=true", "ZOO_ADMINSERVER_ENABLED=true",
}

func TestImageIsAsTheOfficialOne(t *testing.T) {
	environ := imageEnviron(t)
	for _, want := range append(slices.Clone(officialImage), "PATH=/usr/bin") {
		if !slices.Contains(environ, want) {
			t.Errorf("the image does not set %s", want)
		}
	}
	if len(environ) != len(officialImage)+1 {
		t.Errorf("the image sets %v", environ)
	}
	text := string(read(t, "Dockerfile"))
	for _, want := range []string{
		"USER 1000:1000", `VOLUME ["/data", "/datalog", "/logs"]`, "EXPOSE 2181 2888 3888 8080",
		`ENTRYPOINT ["/usr/bin/zkd"]`, `CMD ["serve"]`, "FROM scratch",
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("the Dockerfile has no line %s", want)
		}
	}
}

// imageVariable finds a variable that the last stage of the Dockerfile sets.
var imageVariable = regexp.MustCompile(`(?m)^(?:ENV| ) +([A-Z_0-9]+=\S+)`)

// imageEnviron is the environment that the image sets.
func imageEnviron(t *testing.T) []string {
	t.Helper()
	_, last, _ := strings.Cut(string(read(t, "Dockerfile")), "\nFROM scratch\n")
	var environ []string
	for _, match := range imageVariable.FindAllStringSubmatch(last, -1) {
		environ = append(environ, match[1])
	}
	return environ
}

// TestComposeIsAnEnsemble reads the example for Docker Compose and loads the configuration of each server with what the
// image sets: each is a member of its own, with volumes, and a port of its own on this machine.
func TestComposeIsAnEnsemble(t *testing.T) {
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"))
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(read(t, "conf/compose/compose.yaml"))); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Hostname       string
			Environment    map[string]string
			Ports, Volumes []string
		}
		Volumes map[string]any
	}
	if err := v.Unmarshal(&file); err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for name, service := range file.Services { // any order
		environ := imageEnviron(t)
		for key, value := range service.Environment { // any order; viper folds their capitals
			environ = append(environ, strings.ToUpper(key)+"="+value)
		}
		c, err := conf.Load(conf.Sources{Environ: environ})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(c.Notices) > 0 || len(c.Ensemble.Members) != 3 || name != fmt.Sprintf("zoo%d", c.Ensemble.MyID) ||
			service.Hostname != name {
			t.Errorf("%s is %d of %v, notices %v", name, c.Ensemble.MyID, c.Ensemble.Members, c.Notices)
		}
		for _, what := range append(service.Volumes, service.Ports...) {
			if taken[what] {
				t.Errorf("%s: %s is another's, too", name, what)
			}
			taken[what] = true
			if volume, _, _ := strings.Cut(what, ":"); !strings.HasPrefix(what, "127.0.0.1:") {
				if _, ok := file.Volumes[volume]; !ok {
					t.Errorf("%s: there is no volume %s", name, volume)
				}
			}
		}
	}
	if len(file.Services) != 3 || len(taken) != 9 {
		t.Errorf("%d servers with %v", len(file.Services), taken)
	}
}
