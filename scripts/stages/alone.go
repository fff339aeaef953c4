package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grip is how long the processes of a stage have for ending, once it has ended or was told to.
var grip = 20 * time.Second

// alone runs a stage's command as a child, in a process of its own (stages runs itself for it), and returns when nothing
// of what was started lives. To this process the kernel gives whatever loses its parent below it, also what has left the
// group, the session and the terminal. What outlives the command and grip is told to the file left, a line each, and killed.
func alone(left string, words []string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var failure error
	select {
	case failure = <-ended:
	case <-told: // scripts end what they have started when they are told
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		failure = errors.New("told to end")
		select {
		case <-ended:
		case <-time.After(grip):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	}
	strays, err := sweep(time.Now().Add(grip))
	return errors.Join(failure, err, os.WriteFile(left, []byte(strings.Join(strays, "")), 0o600))
}

// sweep waits until this process has no children, and kills those that there are at the deadline: the children of a child
// that is killed become its own. It returns a line for each that it killed.
func sweep(deadline time.Time) (killed []string, err error) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return killed, nil
		case err != nil && !errors.Is(err, syscall.EINTR):
			return killed, err
		case pid > 0 || err != nil:
			continue
		}
		if time.Now().After(deadline) {
			found, err := children()
			if err != nil {
				return killed, err
			}
			for pid, command := range found {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				if line := fmt.Sprintf("process %d, %s\n", pid, command); !slices.Contains(killed, line) {
					killed = append(killed, line)
				}
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// children are the processes whose parent is this one and which have not ended, with their commands.
func children() (map[int]string, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	found := map[int]string{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// After the name, which is anything in parentheses, come the state and the parent.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] == "Z" || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil {
			continue
		}
		found[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
	}
	return found, nil
}
