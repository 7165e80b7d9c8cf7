package sim

import "path"

// Usage is how much there is of something on a disk.
type Usage struct {
	Bytes   int64 // of all files, a name that is another one of the same file counted as much
	Entries int   // names in the directory itself
}

// Usage returns what is in a directory of the server's data, which need not be there.
func (s *Server) Usage(dir string) Usage {
	s.volume.mu.Lock()
	defer s.volume.mu.Unlock()
	dir = path.Join(dataDir, dir)
	names, err := s.volume.fs.List(dir)
	if err != nil {
		return Usage{}
	}
	return Usage{Bytes: s.volume.used(dir), Entries: len(names)}
}
