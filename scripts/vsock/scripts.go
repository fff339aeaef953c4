package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"cloister/sim/script"
)

// playAll plays the end-to-end scripts, each in an organization of its own, against
// the host over HTTP.
func (w *world) playAll(ctx context.Context) (int, error) {
	files, err := filepath.Glob(filepath.Join(w.scripts, "*.txt"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("%d scripts in %s: %w", len(files), w.scripts, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		s, err := script.Parse(filepath.Base(file), string(text))
		if err != nil {
			return 0, err
		}
		o, err := w.organization(ctx, s.Name)
		if err != nil {
			return 0, fmt.Errorf("making an organization: %w", err)
		}
		w.organizations[s.Name] = o
		if err := s.Run(ctx, script.Target{URL: w.api, Client: http.DefaultClient, Now: time.Now}, o); err != nil {
			return 0, err
		}
	}
	return len(files), nil
}
