package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificateLifetime is long enough for any experiment, also for one whose
// virtual clock starts far from the host's.
const certificateLifetime = 10 * 365 * 24 * time.Hour

// serverTLS returns a configuration with a new self-signed ECDSA P-256
// certificate, made at start as GOST does when it is given none.
func serverTLS() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a TLS key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("cannot make a TLS certificate's serial number: %w", err)
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"gostlab"}, CommonName: "relay"},
		DNSNames:              []string{"relay"},
		NotBefore:             now.Add(-certificateLifetime), // the peer's clock may be another one
		NotAfter:              now.Add(certificateLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a TLS certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
	}, nil
}

// openTLS performs the client's handshake over an open connection. Like GOST it
// sends no name for an IP address.
func openTLS(ctx context.Context, conn net.Conn, hop hopSpec) (net.Conn, error) {
	config := clientTLS(hop.secure)
	host, _, err := net.SplitHostPort(hop.address)
	if err != nil {
		return nil, err
	}
	config.ServerName = host
	client := tls.Client(conn, config)
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return client, nil
}

// clientTLS returns the configuration of a tls or wss hop. The server's name is filled
// in by the WebSocket dialler, which sends none for an IP address.
func clientTLS(secure bool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !secure}
}
