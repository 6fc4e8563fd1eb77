package bench

import (
	"runtime"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
)

// Describe fills in what the manifest says about this machine. What cannot be found out stays empty.
func (m *Manifest) Describe() {
	m.Go = runtime.Version()
	m.OS = runtime.GOOS + "/" + runtime.GOARCH
	m.CPUs = runtime.NumCPU()
	if info, err := cpu.Info(); err == nil && len(info) > 0 {
		m.CPU = info[0].ModelName
	}
	if kernel, err := host.KernelVersion(); err == nil {
		m.Kernel = kernel
	}
}
