package instance

import (
	"zkd/conf"
	"zkd/server/stats/catalog"
	"zkd/storage/space"
)

// volumeOf is what is known of the disk of a store; false if it is the other store's, too, or not known.
func volumeOf(volumes []space.Volume, dir string) (space.Volume, bool) {
	for _, v := range volumes {
		if v.Dir == dir {
			return v, true
		}
	}
	if len(volumes) == 1 {
		return volumes[0], true
	}
	return space.Volume{}, false
}

// setDiskMetrics sets what is known of the disks.
func setDiskMetrics(v *catalog.Values, volumes []space.Volume, c *conf.Storage) {
	for store, dir := range map[string]string{ // any order
		"raftlog": c.DataLogDir, "state": c.DataDir,
	} {
		if volume, ok := volumeOf(volumes, dir); ok {
			v.SetKeyed("zkd_disk_bytes", store, volume.TotalBytes)
			v.SetKeyed("zkd_disk_free_bytes", store, volume.FreeBytes)
			v.SetKeyed("zkd_disk_reserve_bytes", store, volume.ReserveBytes)
			v.SetKeyed("zkd_disk_level", store, int64(volume.Level))
		}
	}
}
