package main

import (
	"context"
	"fmt"
	"net"
	"time"
)

// Time limits of setting up, GOST's; data has none.
const (
	handshakeTimeout = 15 * time.Second // to read a request, or to get through a handshake
	dialTimeout      = 15 * time.Second // to reach a target through all hops
)

// chain is the way to a target: the hops, or with none the network itself.
type chain []hopSpec

// dial opens a connection of its own to target for one forwarded stream. With
// network "udp", each read and write of it is a datagram. An empty target is the
// one that the last hop was started with.
func (c chain) dial(ctx context.Context, network, target string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if len(c) == 0 {
		var dialer net.Dialer // TCP_NODELAY is Go's default
		return dialer.DialContext(ctx, network, target)
	}

	conn, err := chain(nil).dial(ctx, "tcp", c[0].address)
	if err != nil {
		return nil, err
	}
	for i, hop := range c {
		toNetwork, to := network, target
		if i+1 < len(c) {
			toNetwork, to = "tcp", c[i+1].address
		}
		through, err := hop.open(ctx, conn, toNetwork, to)
		if err != nil {
			conn.Close()
			return nil, fmt.Errorf("through %s: %w", hop.address, err)
		}
		conn = through
	}
	return conn, nil
}

// open turns a TCP connection to this hop into one through it.
func (h hopSpec) open(ctx context.Context, conn net.Conn, network, target string) (net.Conn, error) {
	stop := closeWhenDone(ctx, conn)
	defer stop()
	if h.transport != transportTCP {
		var err error
		if conn, err = openWebSocket(ctx, conn, h); err != nil {
			return nil, err
		}
	}
	request, err := newRequest(network, target, h.user)
	if err != nil {
		return nil, err
	}
	header, err := request.encode()
	if err != nil {
		return nil, err
	}

	if h.noDelay {
		if _, err := conn.Write(header); err != nil {
			return nil, err
		}
		if err := readResponse(conn); err != nil {
			return nil, err
		}
	} else {
		conn = &lateResponse{Conn: &lateHeader{Conn: conn, header: header}}
	}
	if network == "udp" {
		conn = &datagrams{Conn: conn}
	}
	return conn, nil
}

// closeWhenDone closes conn if ctx ends before stop is called: a handshake
// through earlier hops knows no other deadline.
func closeWhenDone(ctx context.Context, conn net.Conn) (stop func()) {
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
			conn.Close()
		case <-stopped:
		}
	}()
	return func() {
		close(stopped)
		<-ended // or it might see ctx end just after, and close a connection that is in use
	}
}
