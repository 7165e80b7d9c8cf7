package conf

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// imageVariable is one variable from which the entry point of the official ZooKeeper image writes a line of zoo.cfg.
type imageVariable struct {
	name string
	key  string
	def  string // the image's default
}

// imageVariables are the variables of the official image that stand for one key each.
var imageVariables = []imageVariable{
	{"ZOO_DATA_DIR", "dataDir", "/data"},
	{"ZOO_DATA_LOG_DIR", "dataLogDir", "/datalog"},
	{"ZOO_TICK_TIME", "tickTime", "2000"},
	{"ZOO_INIT_LIMIT", "initLimit", "5"},
	{"ZOO_SYNC_LIMIT", "syncLimit", "2"},
	{"ZOO_AUTOPURGE_SNAPRETAINCOUNT", "autopurge.snapRetainCount", "3"},
	{"ZOO_AUTOPURGE_PURGEINTERVAL", "autopurge.purgeInterval", "0"},
	{"ZOO_MAX_CLIENT_CNXNS", "maxClientCnxns", "60"},
	{"ZOO_STANDALONE_ENABLED", "standaloneEnabled", "true"},
	{"ZOO_ADMINSERVER_ENABLED", "admin.enableServer", "true"},
	{"ZOO_4LW_COMMANDS_WHITELIST", "4lw.commands.whitelist", ""},
	{imageMyID, "myid", "1"},
}

const (
	imageMyID          = "ZOO_MY_ID"                               // content of the file myid, if there is none
	imageServers       = "ZOO_SERVERS"                             // server lines with blanks between them
	imageServersAtHome = "server.1=localhost:2888:3888;2181"       // the image's default for them
	imageExtra         = "ZOO_CFG_EXTRA"                           // any lines with blanks between them
	imageDefault       = "default of the official ZooKeeper image" // source of a default in messages
	imageConfDir       = "ZOO_CONF_DIR"                            // where the image looks for a zoo.cfg
)

// imageMeaningless are variables of the image that are about the machine around the server.
var imageMeaningless = []string{"ZOO_LOG_DIR", "ZOO_LOG4J_PROP", "ZOO_PORT", "ZOO_USER", "ZOO_LOG_FILE"}

// imageFile returns the name of the zoo.cfg that the image would start with: the one in ZOO_CONF_DIR if it is there,
// else none. One that cannot be read is there.
func imageFile(env environment, readFile func(string) ([]byte, error)) string {
	if env[imageConfDir] == "" {
		return ""
	}
	name := filepath.Join(env[imageConfDir], "zoo.cfg")
	if _, err := readFile(name); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return name
}

// isImageSetting tells whether a variable is set to what the image sets it to, so that nobody has asked for it.
func isImageSetting(name, val string) bool {
	return slices.ContainsFunc(imageVariables, func(v imageVariable) bool { return v.name == name && v.def == val })
}

// isImageVariable tells whether the image turns the variable into lines of zoo.cfg.
func isImageVariable(name string) bool {
	sameName := func(v imageVariable) bool { return v.name == name }
	return name == imageServers || name == imageExtra || slices.ContainsFunc(imageVariables, sameName)
}

// usesImage tells whether any variable is set that the image would turn into a line of zoo.cfg.
func usesImage(env environment) bool {
	return slices.ContainsFunc(env.names("ZOO_"), isImageVariable)
}

// isImageDefault tells whether the image sets the variable of a key to this value.
func isImageDefault(name, val string) bool {
	return slices.ContainsFunc(imageVariables, func(v imageVariable) bool { return v.key == name && v.def == val })
}

// noticeMoved tells where a folder is that variables of the image have moved, or its defaults because some variable is
// set: an environment that was left over may do so unawares. In an image, which sets ZOO_CONF_DIR, it is meant, and
// nothing is told.
func (l *loader) noticeMoved(name, what string) {
	s, ok := l.settings[name]
	if !ok || s.layer != layerImage || l.env[imageConfDir] != "" {
		return
	}
	l.notice(s.notice(NoticeMoved, "keeps "+what+" in "+s.shown()+
		": without a zoo.cfg the ZOO_ variables of the official image count, and its defaults for what is not set"))
}

// imageNumber returns the number of the server, all that the image takes from its variables when there is a zoo.cfg.
func imageNumber(env environment) []assignment {
	if env[imageMyID] == "" {
		return nil
	}
	return []assignment{{name: "myid", value: env[imageMyID], source: variable(imageMyID)}}
}

// imageAssignments returns what the variables of the image say, and the image's defaults for those that are not set, as
// its entry point does when there is no zoo.cfg.
func imageAssignments(env environment) []assignment {
	var found []assignment
	for _, v := range imageVariables {
		switch {
		case env[v.name] != "":
			found = append(found, assignment{name: v.key, value: env[v.name], source: variable(v.name)})
		case v.def != "":
			found = append(found, assignment{name: v.key, value: v.def, source: imageDefault})
		}
	}
	servers, source := env[imageServers], variable(imageServers)
	if servers == "" {
		servers, source = imageServersAtHome, imageDefault
	}
	found = append(found, imageLines(servers, source)...)
	return append(found, imageLines(env[imageExtra], variable(imageExtra))...)
}

// imageLines splits a variable that holds lines of zoo.cfg with blanks between them.
func imageLines(lines, source string) []assignment {
	var found []assignment
	for line := range strings.FieldsSeq(lines) {
		entries, broken := parseProperties([]byte(line))
		if len(broken) > 0 {
			found = append(found, assignment{name: line, source: source})
			continue
		}
		for _, e := range entries {
			found = append(found, assignment{name: e.key, value: e.value, source: source})
		}
	}
	return found
}
