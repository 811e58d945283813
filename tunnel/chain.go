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
	last := c[len(c)-1]
	conn, err := c.reach(ctx)
	if err != nil {
		return nil, err
	}
	through, err := last.request(ctx, conn, network, target)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("through %s: %w", last.address, err)
	}
	return through, nil
}

// reach opens what one request to the last hop goes over: a connection of its own,
// or a stream of the one that is shared.
func (c chain) reach(ctx context.Context) (net.Conn, error) {
	if shared := c[len(c)-1].shared; shared != nil {
		return shared.stream(ctx, c.connect)
	}
	return c.connect(ctx)
}

// connect opens a TCP connection to the last hop, through those before it, and
// gets through its transport's handshake.
func (c chain) connect(ctx context.Context) (net.Conn, error) {
	before, last := c[:len(c)-1], c[len(c)-1]
	conn, err := before.dial(ctx, "tcp", last.address)
	if err != nil {
		return nil, err
	}
	if tcp, isTCP := conn.(*net.TCPConn); isTCP && last.nagle {
		tcp.SetNoDelay(false)
	}
	opened, err := last.handshake(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("through %s: %w", last.address, err)
	}
	return opened, nil
}

// handshake turns a TCP connection to this hop into one of its transport.
func (h hopSpec) handshake(ctx context.Context, conn net.Conn) (net.Conn, error) {
	stop := closeWhenDone(ctx, conn)
	defer stop()
	switch {
	case h.transport.isWebSocket():
		return openWebSocket(ctx, conn, h)
	case h.transport == transportTLS:
		return openTLS(ctx, conn, h)
	}
	return conn, nil
}

// request asks this hop for a target, over a connection to it.
func (h hopSpec) request(
	ctx context.Context, conn net.Conn, network, target string,
) (net.Conn, error) {
	stop := closeWhenDone(ctx, conn)
	defer stop()
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
