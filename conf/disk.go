package conf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// DiskFiles is Files over the file system of the machine.
type DiskFiles struct{}

// ReadFile is os.ReadFile.
func (DiskFiles) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

// Remove is os.Remove.
func (DiskFiles) Remove(name string) error { return os.Remove(name) }

// WriteFile writes content to a file beside name, syncs it, renames it over name and syncs the folder. A symbolic link
// stays one: the file it points to is replaced. An existing file keeps its permissions; a new one has those of like,
// without it 0644, as ZooKeeper's have.
func (DiskFiles) WriteFile(name, like string, content []byte) error {
	mode := os.FileMode(0o644)
	if like != "" {
		info, err := os.Stat(like)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if info, err := os.Stat(name); err == nil {
		mode = info.Mode().Perm()
	}
	folder := filepath.Dir(name)
	file, err := os.CreateTemp(folder, filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	if err := fill(file, content, mode); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(folder)
}

// fill writes, syncs and closes file.
func fill(file *os.File, content []byte, mode os.FileMode) error {
	_, err := file.Write(content)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder makes a rename in folder durable.
func syncFolder(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if err = errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", folder, err)
	}
	return nil
}
