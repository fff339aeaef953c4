package laptop_test

import (
	"sync"
	"testing"

	"cloister/sim/laptop"
)

// Several processes start in a new data directory at once: all take the same root.
func TestModuleRootTogether(t *testing.T) {
	for range 20 {
		dir := &laptop.Dir{Path: t.TempDir()}
		var all [4]string
		var started sync.WaitGroup
		for i := range all {
			started.Go(func() {
				root, err := dir.ModuleRoot()
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = root.PEM()
			})
		}
		started.Wait()
		for _, pem := range all[1:] {
			if pem != all[0] {
				t.Fatal("two roots of one data directory")
			}
		}
	}
}
