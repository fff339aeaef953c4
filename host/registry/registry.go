// Package registry gets the images of customers' programs from registries, for the enclave.
//
// It names no image and judges none: the enclave asks for blobs by their digests and holds them against those. What a
// registry asks for is shown to that registry, and to the server of tokens that it names. A registry is somebody's choice, so
// only public addresses are reached, and those that the operator allows.
package registry

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"cloister/shared/tvc"
	"cloister/shared/wire"
)

// Times of a pull.
const (
	imageWait    = 15 * time.Minute // for a whole image
	responseWait = 20 * time.Second // until a registry begins to answer
)

// A Puller gets images.
type Puller struct {
	transport http.RoundTripper
	log       *slog.Logger
}

// New makes one that connects by dial, which decides where to.
func New(dial func(ctx context.Context, network, address string) (net.Conn, error), log *slog.Logger) *Puller {
	return &Puller{&http.Transport{DialContext: dial, TLSHandshakeTimeout: responseWait, ResponseHeaderTimeout: responseWait, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: 1, IdleConnTimeout: responseWait}, log}
}

// Open is a stream over which an image's blobs are given, as wire.Pull has it.
func (p *Puller) Open(_ context.Context, q *wire.Pull) (net.Conn, wire.DialVerdict, error) {
	ref, err := name.ParseReference(q.Image)
	if err != nil {
		return nil, wire.DialRefused, fmt.Errorf("naming an image: %w", err)
	}
	ours, theirs := net.Pipe()
	go func() {
		defer ours.Close()
		ctx, cancel := context.WithTimeout(context.Background(), imageWait)
		defer cancel()
		one := &pull{ref: ref, options: []remote.Option{remote.WithContext(ctx), remote.WithAuth(authOf(q.Auth)), remote.WithTransport(p.transport)}, to: ours}
		if err := one.serve(); err != nil {
			p.log.Warn("image not passed to the enclave", "image", q.Image, "error", err)
		}
	}()
	return theirs, wire.DialOpen, nil
}

// maxUnpacked bounds what is unpacked of an image on the way to a program.
const maxUnpacked = 4 << 30

// Program takes a program out of an image. Whether it is the one that was approved is for the enclave to say that runs it.
func (p *Puller) Program(ctx context.Context, image, at, auth string) ([]byte, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("naming an image: %w", err)
	}
	got, err := remote.Image(ref, remote.WithContext(ctx), remote.WithAuth(authOf(auth)), remote.WithTransport(p.transport))
	if err != nil {
		return nil, err
	}
	whole := mutate.Extract(got)
	defer whole.Close()
	archive := tar.NewReader(io.LimitReader(whole, maxUnpacked))
	for {
		h, err := archive.Next()
		if err != nil {
			return nil, fmt.Errorf("no %s in the image: %w", at, err)
		}
		if path.Clean("/"+h.Name) == at && h.Typeflag == tar.TypeReg {
			if h.Size > tvc.MaxProgram {
				return nil, errors.New("the program is too large")
			}
			return io.ReadAll(archive)
		}
	}
}

func authOf(auth string) authn.Authenticator {
	if auth == "" {
		return authn.Anonymous
	}
	user, password, _ := strings.Cut(auth, ":")
	return &authn.Basic{Username: user, Password: password}
}

// pull is one image on its way.
type pull struct {
	ref     name.Reference
	options []remote.Option
	to      net.Conn
}

// serve gives blobs until the enclave asks for no more.
func (p *pull) serve() error {
	for {
		var digest [32]byte
		if _, err := io.ReadFull(p.to, digest[:]); err != nil {
			return nil // it has what it wanted, or is gone
		}
		body, size, err := p.blob(digest)
		head := [1 + 8]byte{byte(verdictOf(err))}
		binary.BigEndian.PutUint64(head[1:], uint64(size))
		if _, gone := p.to.Write(head[:]); gone != nil || err != nil {
			if err == nil {
				_ = body.Close()
			}
			return err
		}
		_, err = io.CopyN(p.to, body, size)
		_ = body.Close()
		if errors.Is(err, io.ErrClosedPipe) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// blob opens one; the zero digest is the manifest.
func (p *pull) blob(digest [32]byte) (io.ReadCloser, int64, error) {
	named := fmt.Sprintf("sha256:%x", digest)
	if pinned, ok := p.ref.(name.Digest); digest == [32]byte{} || ok && pinned.DigestStr() == named {
		got, err := remote.Get(p.ref, p.options...)
		if err != nil {
			return nil, 0, err
		}
		return io.NopCloser(strings.NewReader(string(got.Manifest))), int64(len(got.Manifest)), nil
	}
	layer, err := remote.Layer(p.ref.Context().Digest(named), p.options...)
	if err != nil {
		return nil, 0, err
	}
	size, err := layer.Size()
	if err != nil {
		return nil, 0, err
	}
	body, err := layer.Compressed()
	return body, size, err
}

// verdictOf says what came of asking a registry.
func verdictOf(err error) wire.BlobVerdict {
	var answer *transport.Error
	switch {
	case err == nil:
		return wire.BlobHere
	case !errors.As(err, &answer):
		return wire.BlobAway
	case answer.StatusCode == http.StatusNotFound:
		return wire.BlobAbsent
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return wire.BlobRefused
	}
	return wire.BlobAway
}
