package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"cloister/shared/tvc"
)

// Request and reply of grpc.health.v1.Health/Check for a healthy program: an empty message, and {status: SERVING}, each after its length.
var (
	grpcAsk     = []byte{0, 0, 0, 0, 0}
	grpcServing = []byte{0, 0, 0, 0, 2, 0x08, 0x01}
)

const maxHealth = 4 << 10

// health runs the health check of a program, through a connection into its enclave; nil means healthy.
func health(ctx context.Context, instance Instance, run *tvc.Run) error {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialProgram(ctx, instance, run.HealthCheckPort)
	}}
	defer transport.CloseIdleConnections()
	base := "http://127.0.0.1:" + strconv.Itoa(int(run.HealthCheckPort))
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/health", nil)
	if run.HealthCheckType == tvc.HealthGRPC {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
		ask, err = http.NewRequestWithContext(ctx, http.MethodPost, base+"/grpc.health.v1.Health/Check", bytes.NewReader(grpcAsk))
		if err == nil {
			ask.Header.Set("Content-Type", "application/grpc")
			ask.Header.Set("TE", "trailers")
		}
	}
	if err != nil {
		return err
	}
	reply, err := transport.RoundTrip(ask)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxHealth))
	switch {
	case err != nil:
		return err
	case reply.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", reply.StatusCode)
	case run.HealthCheckType == tvc.HealthGRPC && (!bytes.Equal(body, grpcServing) || reply.Trailer.Get("grpc-status") != "0" && reply.Header.Get("grpc-status") != "0"):
		return errors.New("it is not serving")
	}
	return nil
}
