package main

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/xtaci/smux"
)

// GOST's mws and mwss are WebSockets that carry smux, version 1, by its own
// defaults: frames of at most 32 KiB, a receive buffer of 4 MiB for all streams
// together, and a sign of life every 10 s. Every stream opens with a relay request.
func muxConfig() *smux.Config { return smux.DefaultConfig() }

// sharedSession is the one connection to a hop that all streams are carried by.
type sharedSession struct {
	mu      sync.Mutex
	session *smux.Session // nil before the first stream, or once it has ended
}

var errSessionClosed = errors.New("the shared connection is closed")

// stream opens a stream. connect makes the connection below where there is none,
// or the last has ended; other callers wait for it meanwhile.
func (s *sharedSession) stream(
	ctx context.Context, connect func(context.Context) (net.Conn, error),
) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil || s.session.IsClosed() {
		conn, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		session, err := smux.Client(conn, muxConfig())
		if err != nil {
			conn.Close()
			return nil, err
		}
		s.session = session
	}
	if err := ctx.Err(); err != nil {
		s.session.Close() // made while the server closed
		return nil, errSessionClosed
	}
	stream, err := s.session.OpenStream()
	if err != nil {
		s.session.Close()
		return nil, err
	}
	return stream, nil
}

// Close ends the connection and every stream in it.
func (s *sharedSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil
	}
	return s.session.Close()
}

// serveStreams hands every stream that the peer opens to handle, until the
// connection ends.
func serveStreams(conn net.Conn, handle func(net.Conn)) error {
	session, err := smux.Server(conn, muxConfig())
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return err
		}
		handle(stream)
	}
}
