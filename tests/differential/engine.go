// What the engine would understand of the bodies that the policy let through: decoded by encoding/json, with its folding
// of names and merging of repeated members, into the engine's own shapes. Reads what generate writes; prints each body
// in which something forbidden shows, or that means something else in its canonical form, and exits 1 when there is one.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
)

// A list that may also be written as one string, as the engine takes it.
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	list := make([]string, 0, 1)
	if err := json.Unmarshal(b, &list); err != nil {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		list = append(list, s)
	}
	*w = list
	return nil
}

type health struct {
	Test                                          []string
	Interval, Timeout, StartPeriod, StartInterval int64
	Retries                                       int
}

type Config struct {
	Hostname, Domainname, User              string
	AttachStdin, AttachStdout, AttachStderr bool
	ExposedPorts                            map[string]struct{}
	Tty, OpenStdin, StdinOnce               bool
	Env                                     []string
	Cmd                                     words
	Healthcheck                             *health
	ArgsEscaped                             bool
	Image                                   string
	Volumes                                 map[string]struct{}
	WorkingDir                              string
	Entrypoint                              words
	NetworkDisabled                         bool
	MacAddress                              string
	OnBuild                                 []string
	Labels                                  map[string]string
	StopSignal                              string
	StopTimeout                             *int
	Shell                                   words
}

type driverConfig struct {
	Name    string
	Options map[string]string
}

type mount struct {
	Type, Source, Target string
	ReadOnly             bool
	Consistency          string
	BindOptions          *struct {
		Propagation                                                                  string
		NonRecursive, CreateMountpoint, ReadOnlyNonRecursive, ReadOnlyForceRecursive bool
	}
	VolumeOptions *struct {
		NoCopy       bool
		Labels       map[string]string
		Subpath      string
		DriverConfig *driverConfig
	}
	ImageOptions *struct{ Subpath string }
	TmpfsOptions *struct {
		SizeBytes int64
		Mode      uint32
		Options   [][]string
	}
	ClusterOptions *struct{}
}

type weightDevice struct {
	Path   string
	Weight uint16
}

type throttleDevice struct {
	Path string
	Rate uint64
}

type ulimit struct {
	Name       string
	Hard, Soft int64
}

type Resources struct {
	CpuShares, Memory, NanoCpus               int64
	CgroupParent                              string
	BlkioWeight                               uint16
	BlkioWeightDevice                         []*weightDevice
	BlkioDeviceReadBps, BlkioDeviceWriteBps   []*throttleDevice
	BlkioDeviceReadIOps, BlkioDeviceWriteIOps []*throttleDevice
	CpuPeriod, CpuQuota                       int64
	CpuRealtimePeriod, CpuRealtimeRuntime     int64
	CpusetCpus, CpusetMems                    string
	Devices                                   []struct{ PathOnHost, PathInContainer, CgroupPermissions string }
	DeviceCgroupRules                         []string
	DeviceRequests                            []struct{ Driver string }
	KernelMemory, KernelMemoryTCP             int64
	MemoryReservation, MemorySwap             int64
	MemorySwappiness                          *int64
	OomKillDisable                            *bool
	PidsLimit                                 *int64
	Ulimits                                   []*ulimit
	CpuCount, CpuPercent                      int64
	IOMaximumIOps, IOMaximumBandwidth         uint64
}

type HostConfig struct {
	Binds           []string
	ContainerIDFile string
	LogConfig       struct {
		Type   string
		Config map[string]string
	}
	NetworkMode   string
	PortBindings  map[string][]struct{ HostIp, HostPort string }
	RestartPolicy struct {
		Name              string
		MaximumRetryCount int
	}
	AutoRemove                             bool
	VolumeDriver                           string
	VolumesFrom                            []string
	ConsoleSize                            [2]uint
	Annotations                            map[string]string
	CapAdd, CapDrop, Capabilities          words
	CgroupnsMode                           string
	Dns, DnsOptions, DnsSearch, ExtraHosts []string
	GroupAdd                               []string
	IpcMode, Cgroup                        string
	Links                                  []string
	OomScoreAdj                            int
	PidMode                                string
	Privileged, PublishAllPorts            bool
	ReadonlyRootfs                         bool
	SecurityOpt                            []string
	StorageOpt, Tmpfs                      map[string]string
	UTSMode, UsernsMode                    string
	ShmSize                                int64
	Sysctls                                map[string]string
	Runtime, Isolation                     string
	Resources
	Mounts                     []mount
	MaskedPaths, ReadonlyPaths []string
	Init                       *bool
}

type endpoint struct {
	IPAMConfig *struct {
		IPv4Address, IPv6Address string
		LinkLocalIPs             []string
	}
	Links, Aliases                    []string
	DriverOpts                        map[string]string
	GwPriority                        int
	MacAddress, NetworkID, EndpointID string
	Gateway, IPAddress                string
	IPPrefixLen                       int
	IPv6Gateway, GlobalIPv6Address    string
	GlobalIPv6PrefixLen               int
	DNSNames                          []string
}

type networking struct {
	EndpointsConfig map[string]*endpoint
}

// Engines up to 26.1 also take the host configuration at the top level.
type create struct {
	*Config
	Inner            *HostConfig `json:"HostConfig"`
	Cpuset           string
	NetworkingConfig *networking
	*HostConfig
}

type execCreate struct {
	User                                    string
	Privileged, Tty                         bool
	ConsoleSize                             *[2]uint
	AttachStdin, AttachStderr, AttachStdout bool
	Detach                                  bool
	DetachKeys                              string
	Env                                     []string
	WorkingDir                              string
	Cmd                                     []string
}

type execStart struct {
	Detach, Tty bool
	ConsoleSize *[2]uint
}

type volume struct {
	Name, Driver      string
	DriverOpts        map[string]string
	Labels            map[string]string
	ClusterVolumeSpec *struct{ Group string }
}

type network struct {
	Name                   string
	CheckDuplicate         bool
	Driver, Scope          string
	EnableIPv4, EnableIPv6 *bool
	IPAM                   *struct {
		Driver  string
		Options map[string]string
		Config  []struct{ Subnet, IPRange, Gateway string }
	}
	Internal, Attachable, Ingress bool
	ConfigOnly                    bool
	ConfigFrom                    *struct{ Network string }
	Options, Labels               map[string]string
}

type connect struct {
	Container      string
	EndpointConfig *endpoint
	Force          bool
}

// --- what may show -----------------------------------------------------------------------------------------------------

type finding struct{ text string }

func must(ok bool, format string, args ...interface{}) {
	if !ok {
		panic(finding{fmt.Sprintf(format, args...)})
	}
}

func one(s string, of ...string) bool {
	for _, o := range of {
		if s == o {
			return true
		}
	}
	return false
}

func letters(s, extra string) bool {
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(extra, c)) {
			return false
		}
	}
	return true
}

func named(s, prefix string) bool {
	return strings.HasPrefix(s, prefix) && letters(s, "_.-") && len(s) <= 128
}

func capName(s string) bool { return named(s, "cap-") && len(s) > 4 }

func within(v, min, max int64) bool { return v >= min && v <= max }

func zeroOr(v, min, max int64) bool { return v == 0 || within(v, min, max) }

// Every field that is named must be at its zero.
func zeros(v interface{}, names ...string) {
	r := reflect.ValueOf(v).Elem()
	for _, n := range names {
		f := r.FieldByName(n)
		empty := f.IsZero() || ((f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0)
		must(empty, "%s is %v", n, f.Interface())
	}
}

func cleanPath(p string) bool {
	if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\x00\n") {
		return false
	}
	for _, s := range strings.Split(strings.TrimSuffix(p[1:], "/"), "/") {
		if s == "." || s == ".." || (s == "" && p != "/") {
			return false
		}
	}
	for _, d := range []string{"/proc", "/sys", "/dev"} {
		if p == d || strings.HasPrefix(p, d+"/") {
			return false
		}
	}
	return true
}

func ownKeys(labels map[string]string) {
	for k := range labels {
		must(strings.HasPrefix(k, "dev.capybara."), "label %q", k)
	}
}

func ownLabels(labels map[string]string) {
	must(labels["dev.capybara.sandbox"] == "1", "the label is missing")
	ownKeys(labels)
}

func env(list []string) {
	for _, e := range list {
		i := strings.IndexByte(e, '=')
		must(i > 0 && !strings.HasPrefix(e, "NVIDIA_"), "Env %q", e)
	}
}

func user(u string) {
	must(letters(u, "_:-"), "User %q", u)
	for _, part := range strings.Split(u, ":") {
		if n, err := strconv.Atoi(part); err == nil {
			must(strconv.Itoa(n) == part && n < 1<<31, "User %q", u)
		}
	}
}

func size(options string) int64 {
	total := int64(-1)
	for _, o := range strings.Split(options, ",") {
		if !strings.HasPrefix(o, "size=") {
			must(one(o, "rw", "ro", "exec", "noexec", "nosuid", "nodev") || strings.HasPrefix(o, "mode=") ||
				strings.HasPrefix(o, "uid=") || strings.HasPrefix(o, "gid="), "tmpfs option %q", o)
			continue
		}
		must(total < 0, "two sizes")
		n := strings.ToLower(o[5:])
		unit := int64(1)
		if i := strings.IndexAny(n, "kmg"); i >= 0 {
			unit = int64(1) << (10 * (1 + strings.IndexByte("kmg", n[i])))
			n = n[:i]
		}
		v, err := strconv.ParseInt(n, 10, 64)
		must(err == nil, "size %q", o)
		total = v * unit
	}
	return total
}

func (m *mount) check() {
	must(m.Target != "/" && cleanPath(m.Target), "mount target %q", m.Target)
	must(m.BindOptions == nil && m.ClusterOptions == nil && m.ImageOptions == nil, "mount options of another type")
	switch m.Type {
	case "volume":
		must(capName(m.Source), "mount source %q", m.Source)
		must(m.TmpfsOptions == nil || m.TmpfsOptions.SizeBytes == 0, "tmpfs options of a volume")
		if o := m.VolumeOptions; o != nil {
			must(o.DriverConfig == nil || (o.DriverConfig.Name == "" && len(o.DriverConfig.Options) == 0), "driver")
			must(o.Subpath == "", "subpath")
			ownKeys(o.Labels)
		}
	case "tmpfs":
		must(m.Source == "", "source of a tmpfs")
		o := m.TmpfsOptions
		must(o != nil && within(o.SizeBytes, 1, 64<<30) && o.Mode <= 01777 && len(o.Options) == 0, "tmpfs options")
	default:
		must(false, "mount type %q", m.Type)
	}
}

func (h *HostConfig) check() {
	zeros(h, "Privileged", "CapAdd", "Capabilities", "Devices", "DeviceCgroupRules", "DeviceRequests", "GroupAdd",
		"UsernsMode", "UTSMode", "PidMode", "Cgroup", "Annotations", "Sysctls", "CgroupParent", "Binds", "VolumesFrom",
		"VolumeDriver", "StorageOpt", "ContainerIDFile", "PortBindings", "PublishAllPorts", "DnsOptions", "DnsSearch",
		"ExtraHosts", "Links", "CpuPeriod", "CpuQuota", "CpuRealtimePeriod", "CpuRealtimeRuntime", "CpusetCpus",
		"CpusetMems", "CpuCount", "CpuPercent", "IOMaximumIOps", "IOMaximumBandwidth", "BlkioWeightDevice",
		"BlkioDeviceReadBps", "BlkioDeviceWriteBps", "BlkioDeviceReadIOps", "BlkioDeviceWriteIOps", "KernelMemory",
		"KernelMemoryTCP")
	must(h.MaskedPaths == nil && h.ReadonlyPaths == nil, "an empty list unmasks")
	must(h.OomKillDisable == nil || !*h.OomKillDisable, "OomKillDisable")
	must(h.MemorySwappiness == nil || *h.MemorySwappiness == -1, "MemorySwappiness")
	all := false
	for _, c := range h.CapDrop {
		all = all || strings.ToUpper(c) == "ALL"
	}
	must(all, "CapDrop %v", h.CapDrop)
	must(len(h.SecurityOpt) > 0, "no SecurityOpt")
	for _, s := range h.SecurityOpt {
		must(one(s, "no-new-privileges", "no-new-privileges=true", "no-new-privileges:true"), "SecurityOpt %q", s)
	}
	must(h.ReadonlyRootfs, "ReadonlyRootfs")
	must(h.PidsLimit != nil && within(*h.PidsLimit, 1, 4096), "PidsLimit")
	must(within(h.Memory, 4<<20, 64<<30), "Memory %d", h.Memory)
	must(zeroOr(h.MemorySwap, 4<<20, 64<<30) && zeroOr(h.MemoryReservation, 4<<20, 64<<30), "MemorySwap")
	must(within(h.NanoCpus, 0, 64e9) && within(h.CpuShares, 0, 1024) && within(h.ShmSize, 0, 1<<30), "NanoCpus")
	must(zeroOr(int64(h.BlkioWeight), 10, 500) && within(int64(h.OomScoreAdj), 0, 1000), "BlkioWeight")
	must(one(h.IpcMode, "", "private", "none") && one(h.CgroupnsMode, "", "private"), "namespaces")
	must(h.NetworkMode == "none" || named(h.NetworkMode, "cap"), "NetworkMode %q", h.NetworkMode)
	must(one(h.Runtime, "", "runc", "runsc") && one(h.Isolation, "", "default"), "Runtime %q", h.Runtime)
	must(len(h.Dns) == 0 || reflect.DeepEqual(h.Dns, []string{"127.0.0.1"}), "Dns %v", h.Dns)
	r := h.RestartPolicy
	must(one(r.Name, "", "no") && r.MaximumRetryCount == 0 ||
		r.Name == "on-failure" && within(int64(r.MaximumRetryCount), 1, 5), "RestartPolicy %v", r)
	must(one(h.LogConfig.Type, "", "none", "local", "json-file"), "LogConfig %q", h.LogConfig.Type)
	for k := range h.LogConfig.Config {
		must(one(k, "max-size", "max-file", "compress", "tag"), "log option %q", k)
	}
	for p, o := range h.Tmpfs {
		must(p != "/" && cleanPath(p), "tmpfs path %q", p)
		must(within(size(o), 1, 64<<30), "tmpfs options %q", o)
	}
	for i := range h.Mounts {
		h.Mounts[i].check()
	}
	for _, u := range h.Ulimits {
		must(u != nil && one(u.Name, "nofile", "nproc", "core", "fsize", "stack"), "ulimit")
		most := int64(1 << 20)
		if one(u.Name, "fsize", "stack") {
			most = 64 << 30
		}
		must(within(u.Soft, 0, most) && within(u.Hard, 0, most), "ulimit %s", u.Name)
	}
}

func (e *endpoint) check() {
	zeros(e, "Links", "DriverOpts", "GwPriority", "MacAddress", "NetworkID", "EndpointID", "Gateway", "IPAddress",
		"IPPrefixLen", "IPv6Gateway", "GlobalIPv6Address", "GlobalIPv6PrefixLen", "DNSNames")
	if c := e.IPAMConfig; c != nil {
		must(c.IPv4Address == "" && c.IPv6Address == "" && len(c.LinkLocalIPs) == 0, "IPAMConfig")
	}
	must(len(e.Aliases) <= 16, "Aliases")
}

func (c *create) check() {
	must(c.HostConfig == nil && c.Cpuset == "", "a host configuration at the top level")
	must(c.Config != nil && c.Inner != nil, "no host configuration")
	zeros(c.Config, "ArgsEscaped", "Volumes", "MacAddress", "OnBuild")
	ownLabels(c.Labels)
	must(c.Image != "" && letters(c.Image, "_.:/@-"), "Image %q", c.Image)
	must(letters(c.Hostname, ".-") && letters(c.Domainname, ".-"), "Hostname %q", c.Hostname)
	user(c.User)
	env(c.Env)
	must(c.WorkingDir == "" || cleanPath(c.WorkingDir), "WorkingDir %q", c.WorkingDir)
	must(c.StopTimeout == nil || within(int64(*c.StopTimeout), 0, 60), "StopTimeout")
	must(letters(c.StopSignal, "+-"), "StopSignal")
	if h := c.Healthcheck; h != nil {
		for _, d := range []int64{h.Interval, h.Timeout, h.StartPeriod, h.StartInterval} {
			must(d == 0 || d >= 1e9, "Healthcheck %d", d)
		}
		must(within(int64(h.Retries), 0, 100), "Retries")
	}
	c.Inner.check()
	if n := c.NetworkingConfig; n != nil {
		for k, e := range n.EndpointsConfig {
			must(named(k, "cap") && e != nil, "network %q", k)
			e.check()
		}
	}
}

func (e *execCreate) check() {
	must(!e.Privileged && len(e.Cmd) > 0, "exec")
	user(e.User)
	env(e.Env)
	must(e.WorkingDir == "" || cleanPath(e.WorkingDir), "WorkingDir %q", e.WorkingDir)
}

func (e *execStart) check() {}

func (v *volume) check() {
	must(capName(v.Name) && one(v.Driver, "", "local"), "volume %q %q", v.Name, v.Driver)
	for k := range v.DriverOpts {
		must(k == "size", "DriverOpts %q", k)
	}
	must(v.ClusterVolumeSpec == nil || v.ClusterVolumeSpec.Group == "", "ClusterVolumeSpec")
	ownLabels(v.Labels)
}

func (n *network) check() {
	must(named(n.Name, "cap") && one(n.Driver, "", "bridge") && one(n.Scope, "", "local"), "network %q", n.Name)
	zeros(n, "Attachable", "Ingress", "ConfigOnly")
	must(n.ConfigFrom == nil || n.ConfigFrom.Network == "", "ConfigFrom")
	must(n.EnableIPv4 == nil || *n.EnableIPv4, "EnableIPv4")
	must(n.EnableIPv6 == nil || !*n.EnableIPv6, "EnableIPv6")
	if i := n.IPAM; i != nil {
		must(one(i.Driver, "", "default") && len(i.Options) == 0 && len(i.Config) == 0, "IPAM")
	}
	for k, v := range n.Options {
		b := strings.TrimPrefix(k, "com.docker.network.bridge.")
		must(b == "enable_icc" && v == "false" || n.Internal && (b == "inhibit_ipv4" && v == "true" ||
			b == "gateway_mode_ipv4" && v == "isolated"), "option %s=%s", k, v)
	}
	ownLabels(n.Labels)
}

func (c *connect) check() {
	must(capName(c.Container), "Container %q", c.Container)
	if c.EndpointConfig != nil {
		c.EndpointConfig.check()
	}
}

// --- comparing ---------------------------------------------------------------------------------------------------------

type body interface{ check() }

var bodies = map[string]func() body{
	"container.create":   func() body { return &create{} },
	"exec.create":        func() body { return &execCreate{} },
	"exec.start":         func() body { return &execStart{} },
	"volume.create":      func() body { return &volume{} },
	"network.create":     func() body { return &network{} },
	"network.connect":    func() body { return &connect{} },
	"network.disconnect": func() body { return &connect{} },
}

// Makes one form of all that asks for nothing: empty and absent, and -1 for MemorySwappiness.
func plain(v reflect.Value) {
	switch v.Kind() {
	case reflect.Ptr:
		if v.IsNil() {
			return
		}
		plain(v.Elem())
		if v.Elem().IsZero() && v.CanSet() {
			v.Set(reflect.Zero(v.Type()))
		}
	case reflect.Struct:
		for i := 0; i < v.NumField(); i++ {
			if f := v.Field(i); f.CanSet() {
				plain(f)
			}
		}
	case reflect.Slice:
		if v.Len() == 0 && v.CanSet() {
			v.Set(reflect.Zero(v.Type()))
		}
		for i := 0; i < v.Len(); i++ {
			plain(v.Index(i))
		}
	case reflect.Map:
		if v.Len() == 0 && v.CanSet() {
			v.Set(reflect.Zero(v.Type()))
		}
		for _, k := range v.MapKeys() {
			if e := v.MapIndex(k); e.Kind() == reflect.Ptr && !e.IsNil() {
				plain(e.Elem())
			}
		}
	}
}

func decode(endpoint string, text []byte) (b body, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(finding)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%s", f.text)
		}
	}()
	b = bodies[endpoint]()
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(b); err != nil {
		return b, err
	}
	if _, err := d.Token(); err != io.EOF {
		return b, fmt.Errorf("bytes behind the document")
	}
	b.check()
	if c, ok := b.(*create); ok && c.Inner.MemorySwappiness != nil {
		c.Inner.MemorySwappiness = nil
	}
	plain(reflect.ValueOf(b).Elem())
	return b, nil
}

func compare(endpoint string, sent, canonical []byte) error {
	a, err := decode(endpoint, sent)
	if err != nil {
		return fmt.Errorf("as sent: %v", err)
	}
	b, err := decode(endpoint, canonical)
	if err != nil {
		return fmt.Errorf("canonical: %v", err)
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("the canonical body means something else: %+v, %+v", a, b)
	}
	return nil
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	count, disagree := 0, 0
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF && line == "" {
			break
		}
		var endpoint string
		var n, m int
		if _, err := fmt.Sscanf(line, "%s %d %d", &endpoint, &n, &m); err != nil || bodies[endpoint] == nil {
			fmt.Fprintf(os.Stderr, "engine: not a record: %q\n", line)
			os.Exit(2)
		}
		text := make([]byte, n+m)
		if _, err := io.ReadFull(in, text); err != nil {
			fmt.Fprintln(os.Stderr, "engine:", err)
			os.Exit(2)
		}
		count++
		if err := compare(endpoint, text[:n], text[n:]); err != nil {
			disagree++
			if disagree <= 20 {
				fmt.Printf("%s: %v\n  sent      %s\n  canonical %s\n", endpoint, err, text[:n], text[n:])
			}
		}
	}
	fmt.Printf("engine: %d bodies decoded, %d disagree\n", count, disagree)
	if disagree > 0 || count == 0 {
		os.Exit(1)
	}
}
