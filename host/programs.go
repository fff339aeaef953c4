package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"cloister/host/programs"
)

// programs is what runs customers' programs; nil: nothing does.
func (c *Config) programs(ctx context.Context, registry programs.Registry, log *slog.Logger) (*programs.Listener, error) {
	if c.Programs == "" {
		return nil, nil
	}
	machine, err := c.machine()
	if err != nil {
		return nil, err
	}
	pulls := &programs.Pulls{Registry: registry}
	return &programs.Listener{Context: ctx, Pulls: pulls, Host: programs.New(programs.Config{Machine: machine, Images: pulls, After: time.After, Log: log})}, nil
}

func (c *Config) machine() (programs.Machine, error) {
	kind, what, _ := strings.Cut(c.Programs, ":")
	switch {
	case what == "":
	case kind == "process":
		return &programs.Process{Command: strings.Fields(what), Stderr: os.Stderr}, nil
	case kind == "nitro":
		cpus, mib, _ := strings.Cut(c.ProgramSize, ",")
		n, err1 := strconv.Atoi(cpus)
		m, err2 := strconv.Atoi(mib)
		if err1 != nil || err2 != nil || n < 2 || m < 256 {
			return nil, fmt.Errorf("-program-size %q: want CPUS,MIB, at least 2,256", c.ProgramSize)
		}
		return &programs.Nitro{CLI: "nitro-cli", Image: what, CPUs: n, MemoryMiB: m, After: time.After}, nil
	}
	return nil, errors.New("-programs: want nitro:FILE or process:COMMAND")
}

// ingress listens for what leads to customers' programs.
func (c *Config) ingress(ctx context.Context, l *programs.Listener, log *slog.Logger) error {
	for _, one := range splitList(c.ProgramIngress) {
		app, address, ok := strings.Cut(one, "=")
		if !ok || l == nil {
			return fmt.Errorf("-program-ingress %q: want APP=ADDRESS, and -programs", one)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() {
			if err := l.Host.Ingress(ctx, app, listener); err != nil && ctx.Err() == nil {
				log.Error("traffic of an app ended", "app", app, "error", err)
			}
		}()
	}
	return nil
}
