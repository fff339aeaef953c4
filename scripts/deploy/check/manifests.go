package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// manifests decodes what is for Kubernetes and holds it against itself.
func (c *check) manifests() {
	files, err := filepath.Glob(filepath.Join(c.dir, "kubernetes/*.yaml"))
	if err != nil || len(files) == 0 {
		c.wrong("no manifest")
	}
	for _, file := range files {
		var all []any
		for _, document := range bytes.Split(c.text(file), []byte("\n---\n")) {
			c.objects++
			o, err := decode(document)
			if err != nil {
				c.wrong("%s: %w", filepath.Base(file), err)
				continue
			}
			all = append(all, o)
		}
		c.together(all)
	}
}

func decode(document []byte) (any, error) {
	var head struct{ Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		return nil, err
	}
	o, ok := map[string]any{
		"Namespace": new(core.Namespace), "ServiceAccount": new(core.ServiceAccount), "ConfigMap": new(core.ConfigMap), "Service": new(core.Service),
		"DaemonSet": new(apps.DaemonSet), "PodDisruptionBudget": new(policy.PodDisruptionBudget), "NetworkPolicy": new(networking.NetworkPolicy),
	}[head.Kind]
	if !ok {
		return nil, fmt.Errorf("kind %q is not one that is known here", head.Kind)
	}
	if err := yaml.UnmarshalStrict(document, o); err != nil {
		return nil, fmt.Errorf("%s: %w", head.Kind, err)
	}
	return o, nil
}

// together holds objects against each other: who selects, names or probes something finds it.
func (c *check) together(all []any) {
	var pod *core.PodTemplateSpec
	maps := map[string]bool{}
	for _, o := range all {
		switch o := o.(type) {
		case *apps.DaemonSet:
			pod = &o.Spec.Template
		case *core.ConfigMap:
			maps[o.Name] = true
			for name := range o.Data {
				c.setting("kubernetes", name)
			}
		}
	}
	if pod == nil {
		c.wrong("kubernetes: nothing runs")
		return
	}
	selects := func(what string, labels map[string]string) {
		for k, v := range labels {
			if pod.Labels[k] != v {
				c.wrong("kubernetes: %s selects %s=%s, which no pod has", what, k, v)
			}
		}
		if len(labels) == 0 {
			c.wrong("kubernetes: %s selects everything", what)
		}
	}
	ports := map[string]int32{}
	for _, k := range pod.Spec.Containers {
		for _, p := range k.Ports {
			ports[p.Name] = p.ContainerPort
		}
		c.container(&k, &pod.Spec, maps)
	}
	for _, o := range all {
		switch o := o.(type) {
		case *apps.DaemonSet:
			selects("the set", o.Spec.Selector.MatchLabels)
		case *core.Service:
			selects("the service", o.Spec.Selector)
			for _, p := range o.Spec.Ports {
				if ports[p.TargetPort.StrVal] == 0 {
					c.wrong("kubernetes: the service leads to port %s, which is none", p.TargetPort.String())
				}
			}
		case *policy.PodDisruptionBudget:
			selects("the budget", o.Spec.Selector.MatchLabels)
		case *networking.NetworkPolicy:
			selects("the network policy", o.Spec.PodSelector.MatchLabels)
			for _, in := range o.Spec.Ingress {
				if len(in.From) == 0 {
					c.wrong("kubernetes: the network policy lets everybody in")
				}
				for _, p := range in.Ports {
					if p.Port == nil || ports[p.Port.StrVal] == 0 {
						c.wrong("kubernetes: the network policy names a port that is none")
					}
				}
			}
		}
	}
}

// container looks at one container: probes, bounds, rights.
func (c *check) container(k *core.Container, pod *core.PodSpec, maps map[string]bool) {
	wrong := func(format string, args ...any) { c.wrong("kubernetes, "+k.Name+": "+format, args...) }
	for _, p := range []struct {
		name, path string
		probe      *core.Probe
	}{{"readiness", "/readyz", k.ReadinessProbe}, {"liveness", "/healthz", k.LivenessProbe}, {"startup", "/healthz", k.StartupProbe}} {
		if p.probe == nil || p.probe.HTTPGet == nil || p.probe.HTTPGet.Path != p.path || p.probe.HTTPGet.Port.StrVal != "ops" {
			wrong("the %s probe does not ask %s at the operator's port", p.name, p.path)
		}
	}
	s := k.SecurityContext
	if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || pod.SecurityContext == nil ||
		pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot {
		wrong("it has rights that it does not need")
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		wrong("it is given a token for the cluster")
	}
	if k.Resources.Limits.Memory().IsZero() || k.Resources.Requests.Memory().IsZero() || k.Resources.Requests.Cpu().IsZero() {
		wrong("its memory and processors have no bounds")
	}
	if !strings.Contains(k.Image, "@sha256:") {
		wrong("the image is not named by its digest")
	}
	for _, from := range k.EnvFrom {
		if from.ConfigMapRef == nil || !maps[from.ConfigMapRef.Name] {
			wrong("its settings come from where there are none")
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range k.VolumeMounts {
		if !volumes[m.Name] {
			wrong("volume %s is not there", m.Name)
		}
	}
}
