package backup

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 holds the address of an S3-compatible store and the credentials for it.
type S3 struct {
	Endpoint string // HOST or HOST:PORT; empty: Amazon's
	Region   string // empty: looked up at the store
	// AccessKey, SecretKey and SessionToken sign requests. If all are empty,
	// requests are not signed.
	AccessKey, SecretKey, SessionToken string
	// Plain uses HTTP without TLS. A backup is ciphertext, but the network can read
	// and damage it.
	Plain bool
	// PathStyle puts the bucket into the path, as most servers except Amazon's require.
	PathStyle bool
	// Roots are the root certificates for the server's certificate; nil: the system's.
	Roots *x509.CertPool
}

const scheme = "s3://"

// OpenFolder returns the Folder at a location: s3://BUCKET/PREFIX, or a path.
// It reads and creates nothing.
func OpenFolder(location string, as S3) (Folder, error) {
	rest, remote := strings.CutPrefix(location, scheme)
	switch {
	case !remote && (location == "" || strings.Contains(location, "://")):
		return nil, ErrLocation
	case !remote:
		return Dir{location}, nil
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.Trim(prefix, "/")
	if bucket == "" || prefix != "" && !fs.ValidPath(prefix) {
		return nil, ErrLocation
	}
	o := &minio.Options{Secure: !as.Plain, Region: as.Region}
	if as.AccessKey != "" || as.SecretKey != "" {
		o.Creds = credentials.NewStaticV4(as.AccessKey, as.SecretKey, as.SessionToken)
	}
	if as.PathStyle {
		o.BucketLookup = minio.BucketLookupPath
	}
	transport, err := minio.DefaultTransport(!as.Plain)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	if as.Roots != nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: as.Roots}
	}
	o.Transport = http.RoundTripper(transport)
	if as.Endpoint == "" {
		as.Endpoint = "s3.amazonaws.com"
	}
	client, err := minio.New(as.Endpoint, o)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return &bucketFolder{client, bucket, prefix}, nil
}

// Under joins a name to a location.
func Under(location, name string) string {
	return strings.TrimRight(location, "/") + "/" + name
}

// bucketFolder is a Folder under a prefix of a bucket.
type bucketFolder struct {
	client         *minio.Client
	bucket, prefix string
}

func (f *bucketFolder) key(name string) string { return path.Join(f.prefix, name) }

// String implements Folder.
func (f *bucketFolder) String() string { return scheme + path.Join(f.bucket, f.prefix) }

// Put implements Folder. An object is one request, and durable once it is answered.
func (f *bucketFolder) Put(ctx context.Context, name string, b []byte) error {
	_, err := f.client.PutObject(ctx, f.bucket, f.key(name), bytes.NewReader(b), int64(len(b)),
		minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true})
	if err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	return nil
}

// Get implements Folder.
func (f *bucketFolder) Get(ctx context.Context, name string, most int) ([]byte, error) {
	o, err := f.client.GetObject(ctx, f.bucket, f.key(name), minio.GetObjectOptions{})
	if err == nil {
		defer o.Close()
		var b []byte
		if b, err = readAtMost(o, name, most); err == nil {
			return b, nil
		}
	}
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		err = errors.Join(fs.ErrNotExist, err)
	}
	return nil, fmt.Errorf("fetching %s: %w", name, err)
}
